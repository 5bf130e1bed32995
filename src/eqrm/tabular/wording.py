"""The results of a training on a table as text: a first screen, and all details after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eqrm.errors import Setting
from eqrm.evaluation.controlling.operating_point import OperatingPoint
from eqrm.evaluation.inference.certificates import Certificate, domains_needed
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.presenting.report.answer import Answer, Fact, level_label
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.rounding import as_percent
from eqrm.level import Level
from eqrm.tabular.choosing.contest import Contest
from eqrm.tabular.choosing.decision import as_risk, plural, share_of
from eqrm.tabular.findings import MOST_LISTED, expected_of, minded_of, stated
from eqrm.tabular.training import TableTraining
from eqrm.text import aligned, counted, one_line, typed, wrapped

MOST_WARNINGS, MOST_ROWS = 3, 8


def first_screen(training: TableTraining, confidence: float, source: str = "") -> str:
    """What a command prints: what was done, the decision, the models, what to expect and mind."""
    decision = training.decision
    own = training.evaluation[decision.chosen]
    highest = np.argsort(-own.risks, kind="stable")[:MOST_LISTED]
    worst = [f"{one_line(str(own.domains[i]))} {as_risk(own.risks[i])}" for i in highest]
    parts = [
        opening(training, source),
        str(decision),
        models_table(training),
        "\n".join(
            [
                *(f"{name:<9}{each}" for name, each in expected(training, confidence).items()),
                f"Look at  {', '.join(worst)}: the highest risks",
                *(f"Mind     {each}" for each in minded(training)),
            ]
        ),
    ]
    if training.point is not None:
        parts.insert(2, wrapped(*required(training)))
    others = [each for each in training.decisions if each is not decision]
    if others:
        parts.insert(2, "\n".join(map(str, others)))
    return "\n\n".join(parts)


def required(training: TableTraining) -> tuple[str, ...]:
    """What the requirement takes, or why nothing can be promised."""
    point = training.point
    if not isinstance(point, OperatingPoint):
        return (f"No operating point. {point}",)
    refitted = "This is of the same model fitted without the domains kept aside."
    return point.advice, point.statement, *[refitted] * training.refitted


def opening(training: TableTraining, source: str = "") -> str:
    """What was done, in one line."""
    one, several = plural(training.decision.domain)
    loss = loss_in_words(training.evaluation.loss)
    start = f"{source}: " if source else ""
    rows = f"{training.rows:,} rows"
    if training.chosen_on is not None:
        rows += f" ({training.chosen_on:,} to compare models, all for the final fit)"
    return (
        f"{start}{training.domains:,} {several}, {rows}; risk = mean {loss} of a {one} (lower is "
        "better)"
    )


def models_table(training: TableTraining) -> str:
    """A line per model, by the quantile, the chosen one marked and first; constants below.

    All numbers are measured: that of a decision is corrected for the choice, which a line says.
    Where something is required, a column has what models keep.
    """
    judged, decision = training.evaluation, training.decision
    models = [name for name in judged.models if name not in training.constants]
    levels = sorted({d.alpha for d in training.decisions})
    at = {name: [smooth_quantile(judged[name].risks, level) for level in levels] for name in models}
    place = levels.index(decision.alpha)
    order = sorted(models, key=lambda n: (n != decision.chosen, at[n][place]))
    named = {name for each in training.decisions for name in (each.chosen, each.plain)}
    rest = [name for name in order if name not in named][: max(0, MOST_ROWS - len(named))]
    order = [name for name in order if name in named or name in rest]
    worst = [] if Level(1.0) in levels else ["worst"]
    kind = next(iter(training.skills[models[0]].named))
    rows = [["", "average", *(level.quantile_in_words for level in levels), *worst, kind]]
    contest = training.contests.get(decision.alpha)
    required = None if contest is None else contest.required
    rows[0] += [required.how.keeps, ""] if required is not None else [""]
    for name in order:
        risks = judged[name].risks
        numbers = [risks.mean(), *at[name], *(risks.max() for _ in worst)]
        mark = ">" if name in {d.chosen for d in training.decisions} else " "
        skill = f"{training.skills[name].ranking:.2f}"
        lower = at[name][place] < at[decision.chosen][place]
        told = [f"  {_why_not(training, name)}" if lower and not decision.asked else ""]
        if contest and required and contest.kept is not None:
            tried = _place_of(contest, training, name)
            told.insert(0, "-" if tried is None else required.kept_shown(contest.kept[tried]))
        rows.append([f"{mark} {one_line(name)}", *map(as_risk, numbers), skill, *told])
    constants = ", ".join(
        f"{name} {as_risk(smooth_quantile(judged[name].risks, decision.alpha))}"
        for name in training.constants
    )
    below = [f"  (without a model, {decision.alpha.quantile_in_words}: {constants})"]
    if required:
        share, several = share_of(decision.alpha), plural(decision.domain)[1]
        below.append(f"  ({required.how.keeps}: where {share} of these {several} meet it)")
    own = [as_risk(at[d.chosen][levels.index(d.alpha)]) for d in training.decisions]
    if own != [as_risk(d.quantile) for d in training.decisions]:
        below.append("  (measured risks; the estimate above is corrected for choosing by them)")
    return "\n".join([aligned(rows), *below])


def _why_not(training: TableTraining, name: str) -> str:
    """Why a model with a lower quantile than the chosen one was not chosen."""
    contest = training.contests.get(training.decision.alpha)
    place = None if contest is None else _place_of(contest, training, name)
    if contest is None or place is None:
        return ""
    return "not clearly lower" if contest.allowed()[place] else contest.refusal(place)


def _place_of(contest: Contest, training: TableTraining, name: str) -> int | None:
    """Which of the candidates of one name is shown: that with the risks."""
    means, mean = contest.risks.mean(axis=1), training.evaluation[name].risks.mean()
    named = [i for i, each in enumerate(contest.candidates) if each.name == name]
    return next((i for i in named if np.isclose(means[i], mean)), None)


def expected(training: TableTraining, confidence: float) -> dict[str, str]:
    """What to expect of a new domain: the bound, what it rests on, and the proven one if any."""
    decision = training.decision
    several = plural(decision.domain)[1]
    found = expected_of(training.evaluation, decision, confidence)
    told = {"Expect": _expected(training, found, confidence)}
    if training.aside is not None:
        proven = stated(training.aside, decision, confidence)
        kept = f"{len(training.aside.domains):,} {several} kept aside"
        if isinstance(proven, str):
            told["Certify"] = f"no certificate from {kept}: {proven}"
        else:
            of = "the same model fitted without them" if training.refitted else "this model"
            kind = "approximate bound" if proven.approximate else "certificate"
            told["Proven"] = (
                f"{share_of(decision.alpha)} similar new {several} at most "
                f"{as_risk(proven.bound, up=True)} "
                f"({as_percent(confidence)} {kind} from {kept}, of {of})"
            )
    return told


def _expected(training: TableTraining, found: Certificate | str, confidence: float) -> str:
    decision = training.decision
    several = plural(decision.domain)[1]
    if isinstance(found, str):
        return f"no bound on the risk of new {several}: {found}"
    enough = training.domains >= 2 * domains_needed(decision.alpha.alpha, confidence)
    certify = (
        f"; {Setting('certify')} for a proven one" if enough and training.aside is None else ""
    )
    kind = "cross-fitted"
    if training.in_time:
        kind = f"judged by earlier {several}"
    if found.approximate:
        kind += f", approximate, for {several} that resemble their neighbours in time"
    bounds = {
        name: each.bound
        for name in (decision.chosen, *training.constants)
        if isinstance(each := stated(training.evaluation, decision, confidence, name), Certificate)
    }
    before = bounds.pop(decision.chosen)
    if before < found.bound:
        kind += f", raised from {as_risk(before, up=True)} to the estimate"
    guess = min(bounds, key=bounds.__getitem__, default="")
    lower = guess and bounds[guess] < found.bound
    above = f", above the {as_risk(bounds[guess])} of the {guess}" if lower else ""
    return (
        f"{share_of(decision.alpha)} similar new {several} at most "
        f"{as_risk(found.bound, up=True)}{above} "
        f"({as_percent(confidence)} bound, {kind}{certify})"
    )


def minded(training: TableTraining) -> list[str]:
    """At most three warnings, a line each, by importance."""
    found = minded_of(training)
    told = found[:MOST_WARNINGS]
    if len(found) > MOST_WARNINGS:
        told[-1] += f" (and {counted(len(found) - MOST_WARNINGS, 'note')} in summary.txt)"
    return told


def file_lines(folder: Path, point: str = "") -> str:
    """Where everything is, and what to type next; ``point`` is the file of an operating point."""
    control = f" {Setting('control', folder / point)}" if point else ""
    return (
        f"Report   {folder / 'report.html'}    Details  {folder / 'summary.txt'}\n"
        f"Predict  eqrm predict {typed(folder)} NEW.csv{control} --output predictions.csv"
    )


def details(training: TableTraining, summary: Summary) -> str:
    """All that the first screen leaves out: every candidate, every note, certificates, noise."""
    parts = [candidates_table(contest) for contest in training.contests.values()]
    if training.chosen_on is not None:
        parts.append(
            f"Models were compared with fits to {training.chosen_on:,} of {training.rows:,} rows, "
            "drawn evenly from the domains; they were judged on all rows of the domains that they "
            "had not seen, and those that are handed over are fitted to all rows."
        )
    if training.notes:
        parts.append("\n".join(f"Note: {note}" for note in training.notes))
    parts.append(summary.to_text())
    return "\n\n".join(parts)


def candidates_table(contest: Contest) -> str:
    """Every way to train for a level that was tried, on domains that it had not seen."""
    chosen, plain, allowed = contest.place(), contest.plain, contest.allowed()
    rows, required = [["tried", "average", contest.level.quantile_in_words]], contest.required
    rows[0] += [*([required.how.keeps] if required is not None else []), "minimised", ""]
    for place, candidate in enumerate(contest.candidates):
        risks = contest.risks[place]
        why = "" if allowed[place] else contest.refusal(place)
        why = "chosen" if place == chosen else "plain training" if place == plain else why
        quantile = smooth_quantile(risks, contest.level)
        numbers = [as_risk(risks.mean()), as_risk(quantile)]
        if required is not None and contest.kept is not None:
            numbers.append(required.kept_shown(contest.kept[place]))
            why = why if place in (chosen, plain) else ""
        rows.append([candidate.name, *numbers, candidate.way.name, why])
    goal = contest.level.share_in_words if contest.level != Level(1.0) else "the worst domain"
    compared = (
        "an average over levels near α, within "
        f"{contest.budget:.0%} of the mean risk of plain training"
    )
    if required is not None:
        compared = f"what they keep where {goal} of these domains meet '{required.text}'"
    return (
        f"All that was tried for {goal} (α = {contest.level}), on "
        f"{contest.risks.shape[1]:,} domains by models that had not seen them. Quantiles are "
        f"Harrell–Davis estimates; candidates are compared by {compared}.\n{aligned(rows)}"
    )


CHOSEN = "to use"


def training_answer(training: TableTraining, confidence: float) -> Answer:
    """The decision on the headline level, with what to expect and what to mind."""
    decision = training.decision
    told = expected(training, confidence).values()
    return Answer(
        decision.sentence,
        (
            *(required(training) if training.point is not None else ()),
            decision.evidence,
            *(f"{each[:1].upper()}{each[1:]}." for each in told),
        ),
        decision.chosen,
        CHOSEN,
        references=training.constants,
        constants=training.constants,
        trained_for={
            each.name: each.level
            for contest in training.contests.values()
            for each in contest.candidates
            if each.level is not None and each.name in training.evaluation.models
        },
        at_levels={level_label(each.alpha): str(each) for each in training.decisions},
        facts=tuple(map(Fact, minded_of(training))),
        notes=(
            *(p.curve for p in [training.point] if isinstance(p, OperatingPoint)),
            *(candidates_table(each) for each in training.contests.values()),
        ),
    )
