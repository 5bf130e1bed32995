"""The results of a training on a table, as text for readers without a background in statistics."""

from __future__ import annotations

import math

from eqrm.data.splits import TimeSplit
from eqrm.estimators.selection.surrogates import ERM as REFERENCE
from eqrm.evaluation.inference.noise import MUCH
from eqrm.evaluation.inference.resampling import smooth_quantile
from eqrm.evaluation.measuring.constants import EQUAL_ODDS, MEAN
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.presenting.table_cells import risk_and_skill
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.level import Level
from eqrm.tabular.comparison import LevelResult, TrainingComparison
from eqrm.tabular.references import ERM, recalibrated_name, trained_name
from eqrm.tabular.training import TableTraining
from eqrm.text import aligned, listed, wrapped

MINIMISED = {
    "quantile": "",
    "superquantile": " Each level minimises the superquantile: the mean risk of the worst share "
    "1−α of the training domains.",
    "worst": " 'worst' minimises the largest risk of the training domains.",
    "mean": " Only ERM was trained, which minimises the mean risk.",
}
"""What a level minimises, where that is not its quantile."""
ONE_ROW = (
    "Every held-out domain has one row, so its risk is the loss of that row, and sampling noise "
    "cannot be separated from differences between domains. Is this the right domain column?"
)


def in_words(training: TableTraining, compared: TrainingComparison) -> str:
    """The verdict first, then the numbers it rests on, then what makes them less certain."""
    sure, first = as_percent(compared.confidence), compared.first
    last = [*_warnings(training, compared), *(f"Note: {note}" for note in training.notes)]
    answers = [answer_in_words(training, compared, result) for result in compared.results]
    answers += [unseen_in_words(training, compared), _dearer_than_constants(training)]
    told = [
        wrapped(_opening(training) + MINIMISED[training.measure]),
        *([wrapped(*filter(None, answers))] if any(answers) else []),
        aligned(
            risk_and_skill(
                compared.table.statistics,
                {n: compared.table.cells[n] for n in (*training.constants, *training.models)},
                training.skills,
            )
        ),
        wrapped(
            "Mean and quantiles of the risk over held-out domains (0.9: nine of ten domains are "
            "estimated to have at most this risk; 1: the largest risk; * lowest). All quantiles "
            "are Harrell–Davis estimates, which vary less than single order statistics. "
            f"{_columns_explained(training)}"
        ),
    ]
    if first is not None:
        told += [
            f"{_level_heading(training, first)}\n{level_table(training, first)}",
            wrapped(
                f"Certified: with {sure} confidence, at least a share α of new domains drawn like "
                "these has at most this risk ('too few': not enough domains to say so)."
                f"{about_the_future(training.in_time)} {_certified(first)}"
            ),
        ]
    return "\n\n".join([*told, *([wrapped(*last)] if last else [])])


def choices_in_words(compared: TrainingComparison) -> str:
    """For each level, the curve that the surrogate was chosen from."""
    told = [
        f"{wrapped(result.choice.sentence)}\n{result.choice.table()}"
        for result in compared.results
        if result.choice is not None
    ]
    return "\n\n".join(told)


def answer_in_words(
    training: TableTraining, compared: TrainingComparison, result: LevelResult
) -> str:
    """What to think of a level, what to use, and what it is worse than."""
    verdict, choice = result.verdict, result.choice
    parts = [] if verdict is None else [verdict.sentence]
    if verdict is not None and (compared.summary.noise[ERM] is None or _mostly_noise(compared)):
        parts.append(
            "This is weak evidence: the spread of these risks is mostly sampling noise, or cannot "
            "be told from it."
        )
    if choice is not None:
        parts.append(
            f"Chosen for α = {result.level} on training domains alone: {result.recommended!r} "
            f"({choice.chosen.name}), {choice.reason}."
        )
        if verdict is not None and verdict.favoured not in (None, result.recommended):
            parts.append(
                f"The verdict uses unseen domains and favours {verdict.favoured!r}; "
                "certificates of both are below."
                if verdict.favoured in training.models
                else f"The verdict uses unseen domains and favours {verdict.favoured!r}."
            )
    if result.better:
        decided = verdict is not None and verdict.favoured is not None  # and says what to use
        parts.append(
            f"{trained_name(result.level)!r} has a higher {result.level}-quantile than "
            f"{listed(result.better)}{'' if decided else f': use {_instead(training, result)}'}."
        )
    return " ".join(parts)


def unseen_in_words(training: TableTraining, compared: TrainingComparison) -> str:
    """Which domains the verdicts are about."""
    if all(result.verdict is None for result in compared.results):
        return ""
    if training.in_time is not None:
        return f"Unseen domains are the {len(training.evaluation.domains):,} later ones."
    return (
        f"Unseen domains are the {len(training.evaluation.domains):,} held-out ones and the "
        f"{training.train_domains:,} training domains, each of these with models that were fitted "
        "without it (cross-fitting)."
    )


def _dearer_than_constants(training: TableTraining) -> str:
    """The models whose mean risk is above that of a constant, and what to use instead."""
    means = {name: one.risks.mean() for name, one in training.evaluation.predictors.items()}
    constant = min(training.constants, key=means.__getitem__)
    dearer = [name for name in training.models if means[name] > means[constant]]
    if not dearer:
        return ""
    *others, last = map(repr, dearer)
    who = f"{', '.join(others)} and {last} have" if others else f"{last} has"
    instead = min((*training.models, constant), key=means.__getitem__)
    return (
        f"{who} a higher mean risk than the constant {constant!r} "
        f"({means[constant]:.4g}): where the mean matters, use {instead!r} ({means[instead]:.4g})."
    )


def _instead(training: TableTraining, result: LevelResult) -> str:
    """The reference to use: a model where one is better, else the constant."""
    models = [name for name in result.better if name in training.models]
    best = min(models or result.better, key=lambda n: _quantile(training, n, result.level))
    return repr(best)


def _quantile(training: TableTraining, name: str, level: Level) -> float:
    return smooth_quantile(training.evaluation[name].risks, level)


def _opening(training: TableTraining) -> str:
    """Rows and domains on both sides, and what a risk is."""
    judged = training.evaluation
    name = next(iter(training.models.values())).preprocessor.domain_name
    loss = loss_in_words(judged.loss)
    split, kind, trained, tested, ending = training.in_time, "held-out", ",", "", ""
    if split is not None:
        kind, trained, tested = (
            "later",
            f", {period(split.trained)};",
            f", {period(split.tested)}",
        )
        ending = f" Domains are ordered by {split.order!r}.{left_out(split)}"
    if judged.nesting is not None:
        names = [" and ".join(each) for each in (judged.nesting.members, judged.nesting.groups)]
        ending = (
            f" Domains are members ({names[0]}) of groups ({names[1]}); the held-out ones are of "
            f"{len(set(judged.groups or ())):,} groups of which nothing was trained on."
        )
    return (
        f"Trained on {training.train_domains:,} domains ({training.train_rows:,} rows){trained} "
        f"evaluated on {len(judged.domains):,} {kind} domains ({judged.examples:,} rows){tested}. "
        f"A domain is a value of {name!r}; its risk is the mean {loss} of its rows.{ending}"
    )


def period(ends: tuple[str, str]) -> str:
    """From when to when."""
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def left_out(split: TimeSplit) -> str:
    """The domains that belong to neither part, if there are any."""
    if not split.left_out:
        return ""
    have = "1 domain has" if len(split.left_out) == 1 else f"{len(split.left_out):,} domains have"
    return (
        f" {have} rows both before and after the cut and so took no part in training or "
        f"evaluation: {listed(split.left_out)}."
    )


def about_the_future(split: TimeSplit | None) -> str:
    """What a certificate does not cover where domains are ordered in time."""
    if split is None:
        return ""
    return (
        " This assumes that future domains are drawn like the evaluated ones, which an evaluation "
        "on later domains cannot prove: a trend, or a season that does not occur from "
        f"{' to '.join(split.tested)}, is not covered. Check the certificate as new "
        "domains arrive."
    )


def _columns_explained(training: TableTraining) -> str:
    if next(iter(training.models.values())).preprocessor.task.classes:
        even = math.log(len(next(iter(training.models.values())).preprocessor.task.classes))
        return (
            "AUC, accuracy and calibration error are over all held-out rows. A quantile can be "
            f"lowered by being less sure: {EQUAL_ODDS!r} has the risk {even:.3f} everywhere."
        )
    return f"R² is over all held-out rows; {MEAN!r} predicts the mean of the training rows."


def _level_heading(training: TableTraining, result: LevelResult) -> str:
    """What the table of a level shows, and why it does not show domains left out."""
    name = trained_name(result.level)
    if result.choice is not None:
        return f"{name}: its quantile on training domains left out, and on held-out domains:"
    why = "the notes below say why there are none for training domains left out"
    if training.measure != "quantile":
        why = "training domains are left out by turns for the measure 'quantile' only"
    return wrapped(f"{name}: its quantile on held-out domains ({why}):")


def level_table(training: TableTraining, result: LevelResult) -> str:
    """A line per predictor: its quantile, on both sides where known, mean risk and certificate."""
    level, choice = result.level, result.choice
    names = [ERM, recalibrated_name(level), trained_name(level)]
    lines = [["predictor", "held out", "mean risk", "certified"]]
    for name in filter(training.models.__contains__, names):
        bound = result.certificates[name]
        numbers = _quantile(training, name, level), training.evaluation[name].risks.mean()
        refused = "none" if level == Level(1.0) else "too few"
        certified = refused if isinstance(bound, str) else rounded_up(bound.bound)
        lines.append([name, *(f"{n:.4g}" for n in numbers), certified])
    if choice is None:
        return aligned(lines)
    told = [["minimised", "left out", ""]]
    for name, way in zip(names, (REFERENCE, choice.recalibrated, choice.trained), strict=True):
        left_out = smooth_quantile(choice.of(way), level)
        told.append([way.name, f"{left_out:.4g}", "chosen" if name == result.recommended else ""])
    return aligned(
        [[one[0], *two[:2], *one[1:], two[2]] for one, two in zip(lines, told, strict=True)]
    )


def _certified(result: LevelResult) -> str:
    own = result.certificates[result.recommended]
    if isinstance(own, str):
        return f"No certificate: {own}"
    return f"For {result.recommended!r}: {own.sentence}"


def _mostly_noise(compared: TrainingComparison) -> bool:
    split = compared.summary.noise[ERM]
    return split is not None and split.noise_share >= MUCH


def _warnings(training: TableTraining, compared: TrainingComparison) -> list[str]:
    """What makes the numbers less certain than they seem."""
    summary, first = compared.summary, compared.first
    name = ERM if first is None else trained_name(first.level)
    tests = summary.exchangeability[name]
    splits = {each: summary.noise[each] for each in (ERM, name)}
    found = [(each, ONE_ROW if split is None else split.warning) for each, split in splits.items()]
    found += [(name, test.warning) for test in tests]
    return [f"Warning ({each}): {text}" for each, text in found if text]
