"""The answer that a report begins with: which model, how sure, and what it was compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import QUANTILE, SMOOTH, Difference, paired_differences
from eqrm.evaluation.inference.gains import MARGIN, fewest_to_compare
from eqrm.evaluation.inference.risk_checks import Refused
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.presenting.table_cells import quantiles_at, rounded_difference
from eqrm.evaluation.rounding import as_needed, as_percent, rounded_by_error
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.text import one_line

LOWEST = "lowest quantile here"
NEXT_MODEL, BEST_REFERENCE = "the next best model", "the best reference"
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
    predictors of the evaluation that others are compared with, of which ``constants`` are
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


def shown_models(evaluation: Evaluation, answer: Answer) -> list[ShownModel]:
    """The models, then the references among the predictors, then the other references."""
    models = [name for name in evaluation.predictors if name not in answer.references]
    beside = {} if evaluation.references is None else evaluation.references.risks
    known = {**evaluation.predictors, **beside}
    found = []
    for number, name in enumerate([*models, *answer.references, *beside]):
        reference = number >= len(models)
        sign = _letter(number - len(models)) if reference else str(number + 1)
        level = answer.trained_for.get(name)
        found.append(ShownModel(name, sign, known[name], reference, name == answer.chosen, level))
    return found


def _letter(number: int) -> str:
    """a to z, then aa, ab, ….

    >>> _letter(0), _letter(27)
    ('a', 'ab')
    """
    more, last = divmod(number, len(LETTERS))
    return (_letter(more - 1) if more else "") + LETTERS[last]


def answer_of(
    evaluation: Evaluation,
    summary: Summary,
    table: RiskTable,
    references: Sequence[str] = (),
    constants: Sequence[str] = (),
) -> Answer:
    """The answer to an evaluation: which model has the lowest quantile of risk, and how surely.

    Quantiles are those of the table. A gain is claimed over the next best model and over every
    reference at once, or not at all. ``references`` are predictors that serve as references.

    >>> import eqrm
    >>> from eqrm.evaluation.presenting.summary import summarised
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> answer_of(found, summarised(found), found.risk_table()).sentence
    '2 domains are too few to bound the 0.9-quantile of risk with 95% confidence: ...'
    """
    level, beside = summary.alpha, evaluation.references
    risks = {name: own.risks for name, own in evaluation.predictors.items()}
    models = [name for name in risks if name not in references]
    recalibrates: Mapping[str, str] = {}
    if beside is not None:
        risks |= {name: own.risks for name, own in beside.risks.items()}
        recalibrates = beside.recalibrates
        constants = [*constants, *(name for name in beside.risks if name not in recalibrates)]
    at = {n: quantiles_at(own, [level.alpha], table.interpolation)[0] for n, own in risks.items()}
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
        references=tuple(references),
        constants=tuple(constants),
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
    told, _, provided = found.sentence.partition(", provided that ")
    doubted = " But a test rejects the assumption behind this." if found.doubt else ""
    return f"{told}.{doubted}", (f"This assumes that {provided}",)
