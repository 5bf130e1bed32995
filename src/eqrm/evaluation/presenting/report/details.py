"""The folded part of the report: every number with its interval, tests, notes."""

from __future__ import annotations

from collections.abc import Sequence

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import QUANTILE, Difference
from eqrm.evaluation.inference.noise import ONE_EXAMPLE
from eqrm.evaluation.presenting.report.answer import Answer, ShownModel
from eqrm.evaluation.presenting.report.sections import sign
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.presenting.table_cells import Statistic, rounded_difference
from eqrm.evaluation.rounding import as_percent
from eqrm.markup import (
    Markup,
    element,
    folded,
    joined,
    label,
    scrolling,
    table,
    typeset,
)
from eqrm.text import one_line

NOT_TESTED = "Not tested: there are fewer than five domains."


def details_part(
    evaluation: Evaluation,
    shown: RiskTable,
    summary: Summary,
    answer: Answer,
    rows: Sequence[ShownModel],
) -> Markup:
    """All folded parts but the curve, which scripts draw."""
    models = [row for row in rows if row.name in evaluation.predictors]
    return joined(
        folded(
            "All numbers with intervals",
            *(_numbers(shown, summary, row) for row in rows),
            *(element("p", text, class_="quiet") for text in summary.refusals()),
        ),
        _skills(shown, rows),
        _by_model(
            "Comparison with references",
            models,
            {name: [found.sentence] for name, found in summary.references.items()},
        )
        if summary.references
        else None,
        folded("Sampling noise and real differences", _noise(summary, models)),
        _by_model(
            "Tests of the assumption",
            models,
            {
                name: [test.sentence for test in tests] or [NOT_TESTED]
                for name, tests in summary.exchangeability.items()
            },
            "Certificates assume that new domains are drawn independently from the same "
            "distribution as these. No test can prove that; these look for evidence against it.",
        ),
        _by_model(
            "Groups and members",
            models,
            {name: found.sentences for name, found in summary.nested.items()},
        )
        if summary.nested
        else None,
        _by_model(
            "Bounds for domains in time",
            models,
            {row.name: summary.sentences_in_time(row.name) for row in models},
        )
        if summary.in_time
        else None,
        folded("Notes", element("ul", *(element("li", note) for note in answer.notes)))
        if answer.notes
        else None,
    )


def _numbers(shown: RiskTable, summary: Summary, row: ShownModel) -> Markup:
    """Every statistic of a model, and its difference from the first model."""
    differences = {
        (d.statistic, None if d.level is None else f"{d.level:g}"): d
        for d in summary.differences.get(row.name, [])
        if not d.refused
    }
    head: list[object] = ["Statistic", "Risk", f"{as_percent(shown.confidence)} interval"]
    if differences:
        head += [joined("Minus ", label(one_line(summary.baseline))), "Interval"]
    lines = []
    for statistic, cell in zip(shown.statistics, shown.all_cells[row.name], strict=True):
        cells = [cell.text, cell.interval]
        if differences:
            level = None if statistic.level is None else f"{statistic.level.alpha:g}"
            found = differences.get((statistic.kind, level))
            cells += ["", ""] if found is None else _difference(found)
        lines.append(
            element(
                "tr",
                element("th", _statistic(statistic), scope="row"),
                *(element("td", typeset(text)) for text in cells),
            )
        )
    return folded(
        element("span", sign(row), label(row.name), class_="named"),
        scrolling(table(head, lines, class_="numbers"), f"All numbers of {one_line(row.name)}"),
    )


def _difference(found: Difference) -> list[str]:
    value, low, high = rounded_difference(found)
    return [f"{value}{' (clear)' if found.clear else ''}", f"[{low}, {high}]"]


def _statistic(statistic: Statistic) -> str:
    if statistic.level is None:
        return "mean"
    if statistic.kind == QUANTILE:
        return f"{statistic.level}-quantile"
    return f"mean beyond {statistic.level}"


def _skills(shown: RiskTable, rows: Sequence[ShownModel]) -> Markup | None:
    """AUC and the like, over the rows of all domains together."""
    kinds = shown.kinds_of_skill
    if not kinds:
        return None
    lines = []
    for row in rows:
        lines.append(
            element(
                "tr",
                element(
                    "th", element("span", sign(row), label(row.name), class_="named"), scope="row"
                ),
                *(element("td", each) for each in shown.skill_of(row.name)),
            )
        )
    title = "Accuracy over all examples" if "AUC" in kinds else "R² over all examples"
    return folded(title, scrolling(table(["Model", *kinds], lines, class_="short"), title))


def _noise(summary: Summary, models: Sequence[ShownModel]) -> Markup:
    lines = []
    for row in models:
        split = summary.noise[row.name]
        lines.append(
            element(
                "li",
                element("b", label(row.name)),
                ": ",
                f"{ONE_EXAMPLE}." if split is None else split.sentence,
            )
        )
    return element("ul", *lines)


def _by_model(
    title: str,
    models: Sequence[ShownModel],
    sentences: dict[str, list[str]],
    after: str | None = None,
) -> Markup:
    """Sentences under the name of each model."""
    parts: list[object] = []
    for row in models:
        told = sentences.get(row.name, [])
        if told and len(models) > 1:
            parts.append(element("h3", label(row.name)))
        if told:
            parts.append(element("ul", *(element("li", typeset(text)) for text in told)))
    return folded(title, *parts, element("p", after, class_="quiet") if after else None)
