"""What could be wrong: one line per fact, with the models that it concerns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest
from eqrm.evaluation.inference.nested.findings import INDEPENDENT
from eqrm.evaluation.inference.noise import MUCH, ONE_EXAMPLE
from eqrm.evaluation.inference.risk_checks import Refused
from eqrm.evaluation.presenting.report.answer import Answer, Fact, ShownModel
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.rounding import as_percent
from eqrm.markup import Markup, element, label, typeset

ADVICE = (
    "Measure domains on more examples. The domains with the highest measured risks need not be the "
    "worst domains."
)
_NUMBERS = re.compile(r" \(rank correlation [^)]*\)")


def doubts_of(
    evaluation: Evaluation,
    summary: Summary,
    answer: Answer,
    rows: Sequence[ShownModel],
    confidence: float,
) -> list[Fact]:
    """All facts, those about the whole evaluation first."""
    return [
        *_few(summary, answer),
        *_picked(answer, rows, confidence),
        *answer.facts,
        *_against_references(summary, rows, answer),
        *_noise(summary),
        *_order(summary),
        *([] if evaluation.nesting is None else [Fact(INDEPENDENT)]),
        *(Fact(text) for text in summary.notes),
    ]


def doubts_part(facts: Sequence[Fact], rows: Sequence[ShownModel]) -> Markup:
    """The list of facts; names only where a fact does not concern all models."""
    predictors = {row.name for row in rows if not row.reference}
    everyone = {row.name for row in rows}
    lines = []
    for fact in facts:
        who = [row.name for row in rows if row.name in fact.models]
        told: list[object] = []
        if fact.models and predictors <= set(who) and len(predictors) > 1:
            told = ["all models"]
        elif fact.models and set(who) != everyone:
            for name in who:
                told += [", " if told else "", label(name)]
        small = element("span", "Concerns: ", *told, class_="who") if told else None
        lines.append(element("li", typeset(fact.text), " " if small else None, small))
    if not lines:
        return element("p", "No test found anything that speaks against these numbers.")
    return element("ul", *lines, class_="facts")


def _few(summary: Summary, answer: Answer) -> list[Fact]:
    refused = summary.certificates[answer.chosen]
    return [Fact(f"No certificate: {refused}")] if isinstance(refused, Refused) else []


def _picked(answer: Answer, rows: Sequence[ShownModel], confidence: float) -> list[Fact]:
    models = [row for row in rows if not row.reference]
    if not answer.picked or len(models) == 1:
        return []
    return [
        Fact(
            f"This model is marked because its quantile is the lowest of {len(models)} on these "
            f"domains. A certificate has {as_percent(confidence)} confidence for a model that was "
            "fixed before; the bound for a model picked on these domains stands below it.",
            (answer.chosen,),
        )
    ]


def _against_references(summary: Summary, rows: Sequence[ShownModel], answer: Answer) -> list[Fact]:
    found, level = [], summary.alpha
    beaten = [name for name, beside in summary.references.items() if beside.beaten]
    if beaten:
        found.append(
            Fact(
                f"A reference (a constant, or a recalibration) has a clearly lower "
                f"{level}-quantile of risk.",
                tuple(beaten),
            )
        )
    unclear = [name for name in summary.unclear_gains() if name not in beaten]
    if unclear:
        found.append(
            Fact(
                f"Lower than the first model at level {level}, but not clearly lower than every "
                "reference: this is not a gain.",
                tuple(unclear),
            )
        )
    means = {row.name: float(row.risks.risks.mean()) for row in rows}
    if answer.constants:
        best = min(answer.constants, key=means.__getitem__)
        dearer = [r.name for r in rows if not r.reference and means[r.name] > means[best]]
        if dearer:
            found.append(
                Fact(
                    f"The mean risk is higher than that of the constant {best!r} "
                    f"({means[best]:.4g}): on average the constant predicts better.",
                    tuple(dearer),
                )
            )
    return found


def _noise(summary: Summary) -> list[Fact]:
    splits = {name: split for name, split in summary.noise.items() if split is not None}
    whole = {n: s.noise_share for n, s in splits.items() if s.noise_share >= MUCH}
    tail = {
        n: s.tail_noise_share
        for n, s in splits.items()
        if n not in whole and s.tail_noise_share >= MUCH
    }
    # Where others have a split, the noise of a constant is not known, and domains have examples.
    found = [] if splits else [Fact(f"{ONE_EXAMPLE}.", tuple(summary.noise))]
    if whole:
        found.append(
            Fact(
                f"{_percents(whole.values())} of the spread of the measured risks is sampling "
                f"noise. {ADVICE}",
                tuple(whole),
            )
        )
    if tail:
        alpha = next(iter(splits.values())).alpha
        found.append(
            Fact(
                f"Beyond the {alpha:.4g}-quantile, {_percents(tail.values())} of the distance to "
                f"the mean is sampling noise: the tail consists of domains with few examples. "
                f"{ADVICE}",
                tuple(tail),
            )
        )
    return found


def _order(summary: Summary) -> list[Fact]:
    """Tests that reject, one line for all models with the same finding."""
    found: dict[str, dict[str, ExchangeabilityTest]] = {}
    for name, tests in summary.exchangeability.items():
        for test in tests:
            if test.warning is not None:
                found.setdefault(_NUMBERS.sub("", test.warning), {})[name] = test
    return [
        Fact(_with_numbers(text, list(tests.values())), tuple(tests))
        for text, tests in found.items()
    ]


def _with_numbers(text: str, tests: list[ExchangeabilityTest]) -> str:
    values = sorted(test.statistics[test.rejected or "trend"] for test in tests)
    low, high = f"{values[0]:+.2f}", f"{values[-1]:+.2f}"
    span = low if low == high else f"{low} to {high}"
    largest = max(test.p_value for test in tests)
    p = f"p = {largest:.2g}" if len(tests) == 1 else f"p at most {largest:.2g}"
    first, _, advice = text.partition(". ")
    return f"{first} (rank correlation {span}, {p}). {advice}"


def _percents(shares: Iterable[float]) -> str:
    """One share, or from the smallest to the largest.

    >>> _percents([0.5]), _percents([0.71, 0.55])
    ('50%', '55% to 71%')
    """
    known = sorted(round(100.0 * share) for share in shares)
    return f"{known[0]}%" if known[0] == known[-1] else f"{known[0]}% to {known[-1]}%"
