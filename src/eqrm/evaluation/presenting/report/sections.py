"""The parts of the report that stand without scripts: table, certificates, worst and best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import MEAN, QUANTILE, SMOOTH
from eqrm.evaluation.inference.risk_checks import Refused
from eqrm.evaluation.presenting.report.answer import Answer, ShownModel
from eqrm.evaluation.presenting.report.levels import level_label
from eqrm.evaluation.presenting.report.packing import middle_cut
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.presenting.table_cells import Cell, WorstDomain, worst_domains
from eqrm.evaluation.rounding import as_percent, rounded, rounded_up
from eqrm.level import Level
from eqrm.markup import (
    Markup,
    element,
    folded,
    joined,
    label,
    table,
    typeset,
)
from eqrm.risks import MeasuredRisks

MOST_COLUMNS = 6
"""Levels with a column of their own; the slider's column shows any other."""
FIRST_COLUMNS = (0.5, 0.9, 0.99, 1.0, 0.95, 0.75, 0.25, 0.0)
ENDS = {"0": "lowest", "1": "highest"}
LISTED = 5


def sign(row: ShownModel) -> Markup:
    """What stands for a row in the picture."""
    kind = "chosen" if row.chosen else "ref" if row.reference else "model"
    return element("span", row.sign, class_=f"sign {kind}")


def levels_part(
    shown: RiskTable, rows: Sequence[ShownModel], answer: Answer, content: dict[str, Any]
) -> Markup:
    """Models × levels: mean, the quantile at the slider's level, and quantiles at fixed levels."""
    levels = content["levels"]
    start = levels["labels"][levels["start"]]
    columns = _columns(shown, rows, start)
    now = _now(shown, rows, content, start)
    # A level that has a column of its own needs no second one.
    marked = "here twice" if start in {column.level for column in columns} else "here"
    head = element(
        "tr",
        element("th", "Model", scope="col"),
        element("th", "Mean", scope="col"),
        element(
            "th",
            element("small", "level"),
            element("span", start, class_="level-here"),
            scope="col",
            class_=marked,
            data_now=True,
        ),
        *(
            element(
                "th", ENDS.get(c.level, c.level), scope="col", class_=c.kind, data_level=c.level
            )
            for c in columns
        ),
    )
    lines = [
        (row.reference, _line(shown, row, answer, columns, start, text, marked))
        for row, text in zip(rows, now, strict=True)
    ]
    bodies = {
        "models": [tr for ref, tr in lines if not ref],
        "refs": [tr for ref, tr in lines if ref],
    }
    return element(
        "table",
        element("thead", head),
        *(element("tbody", *trs, class_=kind) for kind, trs in bodies.items() if trs),
        id="levels",
        class_="levels",
    )


class _Column(NamedTuple):
    """A level with a column: where its cells are, and how soon a narrow screen drops it."""

    place: int
    level: str
    kind: str


def _line(
    shown: RiskTable,
    row: ShownModel,
    answer: Answer,
    columns: Sequence[_Column],
    start: str,
    now: str,
    marked: str,
) -> Markup:
    cells = shown.all_cells[row.name]
    own = None if row.trained_for is None else level_label(row.trained_for)
    means = next(i for i, s in enumerate(shown.statistics) if s.kind == MEAN)
    return element(
        "tr",
        element("th", _named(row, answer), scope="row"),
        element("td", *_value(cells[means])),
        element(
            "td", typeset(now), class_=f"{marked} own" if own == start else marked, data_now=True
        ),
        *(
            element(
                "td",
                *_value(cells[c.place]),
                class_=f"{c.kind} own" if c.level == own else c.kind,
                data_level=c.level,
            )
            for c in columns
        ),
        class_="chosen" if row.chosen else None,
    )


def _now(
    shown: RiskTable, rows: Sequence[ShownModel], content: dict[str, Any], start: str
) -> list[str]:
    """The quantiles where the slider starts: as in the table, where it has this level."""
    at = _known(shown).get(start)
    if at is not None:
        return [shown.all_cells[row.name][at].text for row in rows]
    levels = content["levels"]
    return [
        rounded(quantiles[levels["start"]], places)
        for quantiles, places in zip(levels["quantiles"], content["decimals"], strict=True)
    ]


def _known(shown: RiskTable) -> dict[str, int]:
    """Where the quantiles of the table are, by level."""
    return {
        level_label(s.level): i
        for i, s in enumerate(shown.statistics)
        if s.kind == QUANTILE and s.level is not None
    }


def _columns(shown: RiskTable, rows: Sequence[ShownModel], start: str) -> list[_Column]:
    """Which levels have a column: those of trained models first, then usual ones."""
    known = _known(shown)
    own = [level_label(row.trained_for) for row in rows if row.trained_for is not None]
    usual = [level_label(Level(alpha)) for alpha in FIRST_COLUMNS]
    wanted = dict.fromkeys([*own, start, *usual, *known])
    chosen = [level for level in wanted if level in known][:MOST_COLUMNS]
    return [
        _Column(known[level], level, f"p{1 + chosen.index(level) // 2}")
        for level in known
        if level in chosen
    ]


def _named(row: ShownModel, answer: Answer) -> Markup:
    told = [] if row.trained_for is None else [f"trained for {row.trained_for}"]
    told += [answer.role] if row.chosen and answer.role else []
    small = element("small", " · ".join(told)) if told else None
    return element("span", sign(row), element("span", label(row.name), small), class_="named")


def _value(cell: Cell) -> list[object]:
    value: object = element("b", typeset(cell.text)) if cell.best else typeset(cell.text)
    if not cell.interval:
        return [value]
    return [
        element("span", value),
        element("small", typeset(cell.interval[1:-1].replace(", ", " to "))),
    ]


def certificate_part(
    summary: Summary, rows: Sequence[ShownModel], evaluation: Evaluation, start: str
) -> Markup:
    """The certificate of the chosen model, and those of the others on demand."""
    chosen = next(row for row in rows if row.chosen)
    found = summary.certificates[chosen.name]
    told, assumed = (found.sentence, "") if isinstance(found, Refused) else _parts(found)
    others = [row for row in rows if row.name in evaluation.predictors and not row.chosen]
    parts = [
        element(
            "p",
            element("b", label(chosen.name)),
            ": ",
            element("span", told, id="stated"),
            class_="statement",
            id="statement",
        ),
        element("p", assumed, class_="quiet") if assumed else None,
        element("p", class_="quiet", id="statement-more"),
    ]
    if others:
        lines = [
            element(
                "tr",
                element(
                    "th", element("span", sign(row), label(row.name), class_="named"), scope="row"
                ),
                element("td", _bound(summary.certificates[row.name]), data_model=rows.index(row)),
            )
            for row in others
        ]
        what, others_are = "Certified risk", "Certificates of the other models"
        if evaluation.cross_fitted:
            what, others_are = "Bound", "Bounds of the other models"
        head: list[object] = [
            "Model",
            joined(f"{what} at level ", element("span", start, class_="level-here")),
        ]
        parts.append(folded(others_are, table(head, lines, class_="short")))
    return joined(*parts)


def _parts(found: Certificate) -> tuple[str, str]:
    told, _, provided = found.sentence.partition(", provided that ")
    return f"{told}.", f"This assumes that {provided}"


def _bound(found: Certificate | Refused) -> str:
    return "too few domains" if isinstance(found, Refused) else rounded_up(found.bound)


def ends_part(risks: MeasuredRisks) -> Markup:
    """The worst and the best domains of a model."""
    flipped = MeasuredRisks(risks.domains, risks.counts, -risks.risks, risks.variances)
    worst = worst_domains(risks, LISTED)
    best = [
        WorstDomain(d.domain, d.count, -d.risk, d.standard_error)
        for d in worst_domains(flipped, LISTED)
    ]
    return joined(
        _listed("worst", "Highest risk", worst),
        _listed("best", "Lowest risk", best),
    )


def _listed(key: str, title: str, found: Sequence[WorstDomain]) -> Markup:
    lines = [
        element(
            "tr",
            element("th", label(middle_cut(each.domain, 60)), scope="row"),
            element("td", typeset(each.text)),
            element("td", f"{each.count:,}"),
        )
        for each in found
    ]
    return element(
        "div",
        element("h3", title, id=f"{key}-title"),
        table(["Domain", "Risk", "Examples"], lines, id=key, class_="short"),
    )


def about_part(evaluation: Evaluation, risk: str) -> str:
    """What was measured, in the line below the verdict."""
    counts = next(iter(evaluation.predictors.values())).counts
    least, median, most = int(counts.min()), int(np.median(counts)), int(counts.max())
    sizes = f"{most:,} in each" if least == most else f"{least:,} to {most:,}, median {median:,}"
    domains = f"{len(evaluation.domains):,} domains"
    if evaluation.groups is not None:
        domains += f" of {len(set(evaluation.groups)):,} groups"
    return (
        f"Measured on {evaluation.examples:,} examples in {domains} ({sizes}). "
        f"Risk: the {risk} of a domain; lower is better.{evaluation.left_out}"
    )


def table_note(shown: RiskTable, rows: Sequence[ShownModel], risk: str) -> str:
    """How to read the table of levels."""
    estimate = " (Harrell–Davis estimates)" if shown.interpolation == SMOOTH else ""
    parts = [
        f"Risk ({risk}). A column such as 0.9 is a quantile{estimate}: nine of ten domains have at "
        f"most this risk. Small: {as_percent(shown.confidence)} confidence intervals, if domains "
        "are independent; ? where there are too few domains for a limit. Bold: lowest of the "
        "column."
    ]
    if any(row.trained_for is not None for row in rows):
        parts.append("Boxed: the level that a model was trained for.")
    if any(row.reference for row in rows):
        parts.append(
            "Grey, with letters: references, the simpler alternatives that a model must beat."
        )
    return " ".join(parts)
