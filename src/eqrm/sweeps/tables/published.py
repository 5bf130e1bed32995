"""Numbers that the paper prints for DomainBed and WILDS, to stand beside those of a sweep.

``published.csv`` holds them as printed: appendix G.2's tables per dataset and averages (accuracies
in percent, two selection rules), and the quantile tables of section 6.2. Left out are the rows IRM,
GroupDRO and CORAL of OGB-MolPCBA's quantiles: the first two repeat those of iWildCam, and the
third contradicts its own mean. The averages of MMD (63.3) and GroupDRO (60.9) are as printed; the
means of their rows are 58.8 and 60.7.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import resources

from eqrm.registry import folded_name
from eqrm.sweeps.tables.cells import (
    AVERAGES,
    PAPER,
    QUANTILES,
    SweepCell,
    SweepRow,
    SweepTable,
)

AVERAGE = "average"


def matching_column(domain: str, columns: Iterable[str]) -> str | None:
    """The paper's short name of a domain."""
    name = folded_name(domain).replace("location", "l")
    known = list(columns)
    exact = [column for column in known if column.lower() == name]
    near = [column for column in known if name.startswith(column.lower()) and column.isalpha()]
    return next(iter(exact or near), None)


def objective_of(label: str) -> str:
    """The objective in the label of a row."""
    return folded_name(label.split(" ")[0])


@lru_cache
def _tables() -> Mapping[tuple[str, str, str], Mapping[str, Mapping[str, SweepCell]]]:
    found: dict[tuple[str, str, str], dict[str, dict[str, SweepCell]]] = defaultdict(dict)
    text = (resources.files("eqrm.sweeps.tables") / "published.csv").read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        rows = found[line["table"], line["selection"], folded_name(line["dataset"])]
        value, error = line["value"], line["standard_error"]
        scale = 1.0 if line["table"] == QUANTILES else 0.01
        rows.setdefault(line["row"], {})[line["column"]] = SweepCell(
            scale * float(value),
            scale * float(error) if error else None,
            percent=scale < 1.0,
            printed=f"{value} ± {error}" if error else value,
        )
    return dict(found)


def published_rows(
    table: str, selection: str, dataset: str
) -> Mapping[str, Mapping[str, SweepCell]]:
    """The paper's rows of a table: label → column → number; none where it has none.

    ``table`` is "accuracy" or "averages" (for which ``dataset`` is empty) or "quantiles" (for
    which ``selection`` does not matter). Upper and lower case, - and _ do not matter.
    """
    return _tables().get((table, "" if table == QUANTILES else selection, folded_name(dataset)), {})


def with_published(table: SweepTable) -> SweepTable:
    """The same table with the paper's row below each objective that the paper has."""
    known = published_rows(table.kind, table.rule, table.dataset)
    rows = []
    for row in table.rows:
        rows.append(row)
        for label, numbers in known.items():
            if objective_of(label) == objective_of(row.objective):
                cells = _published_cells(table, numbers)
                if any(cell.value is not None for cell in cells):
                    rows.append(SweepRow(label, cells, PAPER))
    return replace(table, rows=tuple(rows))


def _published_cells(table: SweepTable, numbers: Mapping[str, SweepCell]) -> tuple[SweepCell, ...]:
    nothing = SweepCell(None, printed="")
    if table.kind == QUANTILES:
        return tuple(numbers.get(column, nothing) for column in table.columns)
    names = [name for name in numbers if name != AVERAGE]
    if table.kind == AVERAGES:
        folded = {folded_name(name): name for name in names}
        matched = [folded.get(folded_name(column)) for column in table.columns[:-1]]
    else:
        matched = [matching_column(column, names) for column in table.columns[:-1]]
    # An average is comparable where the same things are averaged.
    same = set(matched) == set(names) and len(matched) == len(names)
    matched.append(AVERAGE if same else None)
    return tuple(numbers.get(name or "", nothing) for name in matched)
