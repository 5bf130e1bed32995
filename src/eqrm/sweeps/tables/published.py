"""Numbers that the paper prints for DomainBed and WILDS, to stand beside those of a sweep.

``published.csv`` holds them as printed: appendix G.2's tables per dataset and averages (accuracies
in percent, two selection rules), and the quantile tables of section 6.2. Left out are the rows IRM,
GroupDRO and CORAL of OGB-MolPCBA's quantiles: the first two repeat those of iWildCam, and the
third contradicts its own mean.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from eqrm.sweeps.tables.cells import (
    AVERAGES,
    PAPER,
    QUANTILES,
    SweepCell,
    SweepRow,
    SweepTable,
)

AVERAGE = "average"
REMARKS = {
    ("averages", "training-domain", "mmd"): "The paper prints an average of 63.3 for MMD; the mean "
    "of its row is 58.8.",
    ("averages", "training-domain", "groupdro"): "The paper prints an average of 60.9 for "
    "GroupDRO; the mean of its row is 60.7.",
}
"""Where the paper's own numbers do not agree, by table, selection rule and objective."""


class PublishedNumber(NamedTuple):
    """A number as printed, and its standard error where there is one."""

    value: str
    standard_error: str


def published_rows(
    table: str, selection: str, dataset: str, objectives: Iterable[str]
) -> dict[str, dict[str, PublishedNumber]]:
    """The paper's rows for these objectives: label → column → number; none where it has none.

    ``table`` is "accuracy" or "averages" (for which ``dataset`` is empty) or "quantiles" (for
    which ``selection`` does not matter). Upper and lower case, - and _ do not matter, nor does
    what follows the first word of an objective.

    >>> published_rows("accuracy", "oracle", "pacs", ["eqrm"])["EQRM"]["A"]
    PublishedNumber(value='88.3', standard_error='0.6')
    """
    asked = set(map(objective_of, objectives))
    known = _tables().get((table, "" if table == "quantiles" else selection, folded_name(dataset)))
    found = {} if known is None else known
    return {row: dict(numbers) for row, numbers in found.items() if objective_of(row) in asked}


def matching_column(domain: str, columns: Iterable[str]) -> str | None:
    """The paper's short name of a domain.

    >>> matching_column("art_painting", "ACPS"), matching_column("location_38", ["L100", "L38"])
    ('A', 'L38')
    """
    name = folded_name(domain).replace("location", "l")
    known = list(columns)
    exact = [column for column in known if column.lower() == name]
    near = [column for column in known if name.startswith(column.lower()) and column.isalpha()]
    return next(iter(exact or near), None)


def folded_name(name: str) -> str:
    """A name without case, - and _.

    >>> folded_name("Office-Home")
    'officehome'
    """
    return name.lower().replace("-", "").replace("_", "")


def objective_of(label: str) -> str:
    """The objective in the label of a row.

    >>> objective_of("EQRM α=0.9"), objective_of("eqrm .9")
    ('eqrm', 'eqrm')
    """
    return folded_name(label.split(" ")[0])


@lru_cache
def _tables() -> Mapping[tuple[str, str, str], Mapping[str, Mapping[str, PublishedNumber]]]:
    found: dict[tuple[str, str, str], dict[str, dict[str, PublishedNumber]]] = defaultdict(dict)
    text = (resources.files("eqrm.sweeps.tables") / "published.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        rows = found[line["table"], line["selection"], folded_name(line["dataset"])]
        number = PublishedNumber(line["value"], line["standard_error"])
        rows.setdefault(line["row"], {})[line["column"]] = number
    return dict(found)


def with_published(table: SweepTable) -> SweepTable:
    """The same table with the paper's row below each objective that the paper has."""
    objectives = [row.objective for row in table.rows]
    known = published_rows(table.kind, table.rule, table.dataset, objectives)
    rows = []
    for row in table.rows:
        rows.append(row)
        for label, numbers in known.items():
            if objective_of(label) == objective_of(row.objective):
                cells = _published_cells(table, numbers)
                if any(cell.value is not None for cell in cells):
                    rows.append(SweepRow(label, cells, PAPER))
    return replace(table, rows=tuple(rows))


def _published_cells(
    table: SweepTable, numbers: Mapping[str, PublishedNumber]
) -> tuple[SweepCell, ...]:
    names = [name for name in numbers if name != AVERAGE]
    if table.kind == QUANTILES:
        matched = [column if column in numbers else None for column in table.columns]
    elif table.kind == AVERAGES:
        folded = {folded_name(name): name for name in names}
        matched = [folded.get(folded_name(column)) for column in table.columns[:-1]]
    else:
        matched = [matching_column(column, names) for column in table.columns[:-1]]
    if table.kind != QUANTILES:  # an average is comparable where the same things are averaged
        same = set(matched) == set(names) and len(matched) == len(names)
        matched.append(AVERAGE if same else None)
    scale = 1.0 if table.kind == QUANTILES else 0.01
    cells = []
    for name in matched:
        if name is None or name not in numbers:
            cells.append(SweepCell(None, printed=""))
            continue
        value, error = numbers[name]
        printed = f"{value} ± {error}" if error else value
        known = scale * float(error) if error else None
        cells.append(SweepCell(scale * float(value), known, percent=scale < 1.0, printed=printed))
    return tuple(cells)


def remarks(tables: Iterable[SweepTable]) -> list[str]:
    """What to know of the published numbers that are shown."""
    shown = {
        (table.kind, table.rule, folded_name(row.objective))
        for table in tables
        for row in table.rows
        if row.source == PAPER and row.cells[-1].value is not None
    }
    return [text for place, text in REMARKS.items() if place in shown]
