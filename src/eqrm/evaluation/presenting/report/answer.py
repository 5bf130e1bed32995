"""What a report says of an evaluation: which model, how sure, and what could be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import QUANTILE, SMOOTH, Difference, paired_differences
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest, order_warning
from eqrm.evaluation.inference.gains import MARGIN, fewest_to_compare
from eqrm.evaluation.inference.nested.findings import INDEPENDENT
from eqrm.evaluation.inference.noise import MUCH, ONE_EXAMPLE
from eqrm.evaluation.inference.risk_checks import Refused
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.presenting.table_cells import quantiles_at, rounded_difference
from eqrm.evaluation.rounding import as_needed, as_percent, rounded_by_error
from eqrm.level import Level
from eqrm.markup import label
from eqrm.risks import MeasuredRisks
from eqrm.text import one_line

HIGHEST = 0.99999
"""The slider's last level; others beyond it are called by their logarithm."""
LOWEST = "lowest quantile here"
NEXT_MODEL, BEST_REFERENCE = "the next best model", "the best reference"
ADVICE = (
    "Measure domains on more examples. The domains with the highest measured risks need not be the "
    "worst domains."
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Fact(NamedTuple):
    """Something that a reader must know, and the models that it concerns (none: all of them)."""

    text: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the first screen says.

    ``sentence`` is the verdict, ``evidence`` the numbers it rests on. ``chosen`` is the model that
    the page marks and certifies, and ``role`` says why it is that one. ``references`` are
    models of the evaluation that others are compared with, of which ``constants`` are
    constants; ``trained_for`` are the levels of trained models. ``at_levels`` are verdicts by
    level; ``facts`` and ``notes`` are shown among what could be wrong and among the details.
    """

    sentence: str
    evidence: tuple[str, ...]
    chosen: str
    role: str = LOWEST
    references: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    trained_for: Mapping[str, Level] = field(default_factory=dict)
    at_levels: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def picked(self) -> bool:
        """Whether the model was chosen on the domains that it is evaluated on."""
        return self.role == LOWEST


class ShownModel(NamedTuple):
    """A model or a reference on the page; ``sign`` is what the picture calls it."""

    name: str
    sign: str
    risks: MeasuredRisks
    reference: bool
    chosen: bool
    trained_for: Level | None

    @property
    def kind(self) -> str:
        """How it is drawn: chosen, ref or model."""
        return "chosen" if self.chosen else "ref" if self.reference else "model"


def level_label(level: Level) -> str:
    """What the page calls a level; the slider and the table call it the same."""
    return f"{level.alpha:g}" if level.alpha <= HIGHEST or level.tail == 0.0 else str(level)


def shown_models(evaluation: Evaluation, answer: Answer) -> list[ShownModel]:
    """The models, then the references among what was evaluated, then the others."""
    models = [name for name in evaluation.models if name not in answer.references]
    beside = {} if evaluation.references is None else evaluation.references.risks
    known = {**evaluation.models, **beside}
    found = []
    for number, name in enumerate([*models, *answer.references, *beside]):
        reference = number >= len(models)
        sign = _letter(number - len(models)) if reference else str(number + 1)
        level = answer.trained_for.get(name)
        found.append(ShownModel(name, sign, known[name], reference, name == answer.chosen, level))
    return found


def _letter(number: int) -> str:
    """a to z, then aa, ab, …."""
    more, last = divmod(number, len(LETTERS))
    return (_letter(more - 1) if more else "") + LETTERS[last]


def answer_of(evaluation: Evaluation, summary: Summary, table: RiskTable) -> Answer:
    """The answer to an evaluation: which model has the lowest quantile of risk, and how surely.

    Quantiles are those of the table. A gain is claimed over the next best model and over every
    reference at once, or not at all.
    """
    level, beside = summary.alpha, evaluation.references
    risks = {name: own.risks for name, own in evaluation.models.items()}
    models, recalibrates = list(risks), {} if beside is None else beside.recalibrates
    others = {} if beside is None else {name: own.risks for name, own in beside.risks.items()}
    risks |= others
    at = {n: quantiles_at(own, [level], table.interpolation)[0] for n, own in risks.items()}
    chosen = min(models, key=at.__getitem__)
    rivals = [n for n in risks if n != chosen and recalibrates.get(n) != chosen]
    if not rivals:
        sentence, evidence = _certified(summary.certificates[chosen])
    else:
        rival = min(rivals, key=at.__getitem__)
        both = risks[rival], risks[chosen]
        how = SMOOTH if table.interpolation == SMOOTH else "step"
        differences = paired_differences(*both, [level], table.confidence, interpolation=how)
        found = next(d for d in differences if d.statistic == QUANTILE)
        against = NEXT_MODEL if rival in models else BEST_REFERENCE
        who = chosen, rival, against, len(models) == 1
        sentence, evidence = _compared(found, summary, *who)
    return Answer(
        sentence,
        evidence,
        chosen,
        role=LOWEST if len(models) > 1 else "",
        constants=tuple(name for name in others if name not in recalibrates),
    )


def _compared(
    found: Difference, summary: Summary, chosen: str, rival: str, against: str, alone: bool
) -> tuple[str, tuple[str, ...]]:
    """The verdict on the lowest model beside the next best, and the numbers it rests on."""
    level, called, other = summary.alpha, repr(one_line(chosen)), repr(one_line(rival))
    needed = fewest_to_compare(level, found.confidence)
    if found.domains < needed:
        few = f"{found.domains} domains are too few to compare models at level {level}: "
        return f"{few}{as_needed(needed)} are needed.", ()
    beside, to_reference = summary.references.get(chosen), against == BEST_REFERENCE
    margin = MARGIN * abs(found.first)
    small = abs(found.value) <= margin
    same = (small and found.clear) or max(abs(found.low), abs(found.high)) <= margin
    beaten = (found.value > 0.0 and found.clear and not small) or (beside and beside.beaten)
    if beaten:
        who = f"{called} does not beat" if alone else "None of the models beats"
        sentence = f"{who} the references at level {level}."
    elif same:
        sentence = f"{called} and {other} hardly differ at level {level}."
    elif found.clear and (beside is None or beside.clear):
        sentence = f"{called} has the lowest {level}-quantile of risk."
        if alone:
            sentence = f"{called} has a lower {level}-quantile of risk than every reference."
    elif to_reference:
        who = f"{called} is not" if alone else "No model is"
        sentence = f"{who} clearly better than the references at level {level}."
    else:
        sentence = f"These data cannot tell which model is best at level {level}."
    if beside is not None and (beaten or to_reference):
        return sentence, (f"{called}: {beside.sentence}",)
    value, low, high = rounded_difference(found)
    error = None if found.refused else (found.high - found.low) / 4.0
    own, theirs = rounded_by_error(error, found.second, found.first)
    lowest = "" if alone else ", the lowest of the models"
    numbers = (
        f"The {level}-quantile of risk of {called} is {own}{lowest}; that of {other}, {against}, "
        f"is {theirs} (difference {value}, {as_percent(found.confidence)} interval {low} to "
        f"{high})."
    )
    return sentence, (numbers,)


def _certified(found: Certificate | Refused) -> tuple[str, tuple[str, ...]]:
    """Without anything to compare with, the certificate is the answer."""
    if isinstance(found, Refused):
        return found.sentence, ()
    doubted = " But a test rejects the assumption behind this." if found.doubt else ""
    return f"{found.statement}.{doubted}", (f"This assumes that {found.assumed}",)


def doubts_of(
    evaluation: Evaluation,
    summary: Summary,
    answer: Answer,
    rows: Sequence[ShownModel],
    confidence: float,
) -> list[Fact]:
    """All facts, those about the whole evaluation first."""
    refused = summary.certificates[answer.chosen]
    few = [Fact(f"No certificate: {refused}")] if isinstance(refused, Refused) else []
    return [
        *few,
        *_picked(answer, rows, confidence),
        *answer.facts,
        *_against_references(summary, rows, answer),
        *_noise(summary),
        *_order(summary),
        *([] if evaluation.nesting is None else [Fact(INDEPENDENT)]),
        *(Fact(text) for text in summary.notes),
    ]


def concerned(fact: Fact, rows: Sequence[ShownModel]) -> list[object]:
    """The models that a fact names: none where it concerns all rows."""
    models = {row.name for row in rows if not row.reference}
    who = [row.name for row in rows if row.name in fact.models]
    if fact.models and models <= set(who) and len(models) > 1:
        return ["all models"]
    return [label(name) for name in who] if len(who) < len(rows) else []


def _picked(answer: Answer, rows: Sequence[ShownModel], confidence: float) -> Iterator[Fact]:
    models = [row for row in rows if not row.reference]
    if answer.picked and len(models) > 1:
        yield Fact(
            f"This model is marked because its quantile is the lowest of {len(models)} on these "
            f"domains. A certificate has {as_percent(confidence)} confidence for a model that was "
            "fixed before; the bound for a model picked on these domains stands below it.",
            (answer.chosen,),
        )


def _against_references(
    summary: Summary, rows: Sequence[ShownModel], answer: Answer
) -> Iterator[Fact]:
    level = summary.alpha
    beaten = [name for name, beside in summary.references.items() if beside.beaten]
    if beaten:
        yield Fact(
            f"A reference (a constant, or a recalibration) has a clearly lower {level}-quantile "
            "of risk.",
            tuple(beaten),
        )
    unclear = [name for name in summary.unclear_gains() if name not in beaten]
    if unclear:
        yield Fact(
            f"Lower than the first model at level {level}, but not clearly lower than every "
            "reference: this is not a gain.",
            tuple(unclear),
        )
    means = {row.name: float(row.risks.risks.mean()) for row in rows}
    if answer.constants:
        best = min(answer.constants, key=means.__getitem__)
        dearer = [r.name for r in rows if not r.reference and means[r.name] > means[best]]
        if dearer:
            yield Fact(
                f"The mean risk is higher than that of the constant {best!r} ({means[best]:.4g}): "
                "on average the constant predicts better.",
                tuple(dearer),
            )


def _noise(summary: Summary) -> Iterator[Fact]:
    splits = {name: split for name, split in summary.noise.items() if split is not None}
    whole = {n: s.noise_share for n, s in splits.items() if s.noise_share >= MUCH}
    tail = {
        n: s.tail_noise_share
        for n, s in splits.items()
        if n not in whole and s.tail_noise_share >= MUCH
    }
    # Where others have a split, the noise of a constant is not known, and domains have examples.
    if not splits:
        yield Fact(f"{ONE_EXAMPLE}.", tuple(summary.noise))
    if whole:
        yield Fact(
            f"{_percents(whole.values())} of the spread of the measured risks is sampling noise. "
            f"{ADVICE}",
            tuple(whole),
        )
    if tail:
        alpha = next(iter(splits.values())).alpha
        yield Fact(
            f"Beyond the {alpha:.4g}-quantile, {_percents(tail.values())} of the distance to the "
            f"mean is sampling noise: the tail consists of domains with few examples. {ADVICE}",
            tuple(tail),
        )


def _order(summary: Summary) -> list[Fact]:
    """Tests that reject, one line for all models with the same finding."""
    found: dict[tuple[str, str, bool], dict[str, ExchangeabilityTest]] = {}
    for name, tests in summary.exchangeability.items():
        for test in tests:
            if test.rejected is not None:
                alike = test.by, test.rejected, test.statistics[test.rejected] > 0.0
                found.setdefault(alike, {})[name] = test
    return [Fact(order_warning(list(tests.values())), tuple(tests)) for tests in found.values()]


def _percents(shares: Iterable[float]) -> str:
    """One share, or from the smallest to the largest."""
    known = sorted(round(100.0 * share) for share in shares)
    return f"{known[0]}%" if known[0] == known[-1] else f"{known[0]}% to {known[-1]}%"
