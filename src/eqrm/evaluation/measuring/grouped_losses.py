"""Losses of files by domain, one group-by in DuckDB however large they are; and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.tables.files import TableFiles, fetched_list
from eqrm.domains import ADVICE, Name, domain_names, joined_columns
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.loss_columns import LossColumn, loss_columns
from eqrm.evaluation.measuring.measured import LabelStatistics
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.evaluation.measuring.rows import (
    SHOWN,
    Row,
    RowsOfPredictions,
    refuse_if_never_right,
    refuse_rows,
)
from eqrm.risks import MeasuredRisks

NUMBERS = "eqrm_numbered_domains"
ROWS_AT_A_TIME = 500_000
MOST_FILES = 100
"""Up to so many files are read one by one where files are domains; of many small ones, each would
cost more than its rows."""


def _row_by_row(
    table: TableFiles,
    domains: list[str],
    columns: list[LossColumn],
    shown: Mapping[str, str] | None = None,
) -> str:
    """SELECT the domain d0, d1, … of each row and the losses l0, l1, …, NULL where unusable.

    Inner queries select what losses are computed from, and the losses, so that nothing is computed
    twice. ``shown`` is selected besides.
    """
    shown = shown or {}
    keys = {f"d{j}": sql for j, sql in enumerate(domains)}
    inputs = {key: sql for column in columns for key, sql in column.inputs.items()}
    first = selected({**keys, **inputs, **shown})
    kept = {key: key for key in (*keys, *shown)}
    raw = selected({**kept, **{f"r{i}": column.loss for i, column in enumerate(columns)}})
    finite = {
        # Losses of checked probabilities are finite where they are not NULL.
        f"l{i}": f"r{i}" if column.has_classes else f"CASE WHEN isfinite(r{i}) THEN r{i} END"
        for i, column in enumerate(columns)
    }
    usable = selected({**kept, **finite})
    return f"{usable} FROM ({raw} FROM ({first} FROM {table.source}))"


def selected(columns: Mapping[str, str]) -> str:
    """SELECT expressions by the names they are given."""
    return "SELECT " + ", ".join(f"{sql} AS {name}" for name, sql in columns.items())


@dataclass(frozen=True, eq=False)
class GroupedLosses:
    """The domains of a table, and the measured risks of its models on them.

    ``names`` are in no order; ``keys`` are what the domain columns hold for each of them.
    ``labels`` are the statistics of labels, by model, where they were asked for.
    """

    names: list[Name]
    keys: list[list[Any]]
    measured: dict[str, MeasuredRisks]
    labels: dict[str, LabelStatistics] = field(default_factory=dict)


def grouped_losses(
    table: TableFiles,
    names: list[str],
    columns: list[LossColumn],
    labels: bool = False,
    part: bool = False,
) -> GroupedLosses:
    """One pass: examples, mean (compensated sum) and variance (Welford) per domain.

    A ``part`` of the rows may be of one domain, or have no prediction that is right.
    """
    domains = [table.domain(name) for name in names]
    sums = ", ".join(
        f"count(l{i}) AS n{i}, favg(l{i}) AS m{i}, var_samp(l{i}) AS v{i}"
        for i in range(len(columns))
    )
    counted = {c.label_key: _LabelSums(c) for c in columns if labels and c.scores_rows}
    besides = {key: sql for each in counted.values() for key, sql in each.inputs.items()}
    rows = _row_by_row(table, domains, columns, besides)
    also = "".join(f", {each.sums}" for each in counted.values())
    parameters = {k: v for column in columns for k, v in column.parameters.items()}
    found = _by_domain(table, names, f"count(*) AS n, {sums}{also} FROM ({rows})", parameters)
    found_names = names_of_domains(table, names, found)
    counts = np.asarray(found["n"])
    for i, column in enumerate(columns):
        bad = counts - np.asarray(found[f"n{i}"])
        if bad.any():
            _refuse_rows(table, domains, column, found_names, bad, int(counts.sum()))
    measured = {}
    for i, column in enumerate(columns):
        variances = np.ma.filled(found[f"v{i}"], np.nan)
        risks = MeasuredRisks.of(found_names, counts, found[f"m{i}"], variances, part=part)
        if not part:
            refuse_if_never_right(column.model, risks, column.expected)
        measured[column.model] = risks
    held = [fetched_list(found[f"d{j}"]) for j in range(len(domains))]
    ordered = next(iter(measured.values())).domains  # groups are in no order
    by_key = {key: each.of(found_names, found).only(ordered) for key, each in counted.items()}
    known = {c.model: by_key[c.label_key] for c in columns if c.label_key in by_key}
    return GroupedLosses(found_names, held, measured, known)


def _by_domain(
    table: TableFiles, names: list[str], aggregates: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Aggregates of rows by their domain d0, d1, …

    Where files are domains, each is read by itself: to group all rows by the name of their file
    takes much longer.
    """
    keys = [f"d{j}" for j in range(len(names))]
    by_file = [key for key, name in zip(keys, names, strict=True) if table.is_filename(name)]
    if not by_file or not 1 < len(table.files) <= MOST_FILES or not table.have_one_schema:
        sql = f"SELECT {', '.join(keys)}, {aggregates} GROUP BY {', '.join(keys)}"
        return table.fetched(sql, **parameters)
    others = [key for key in keys if key not in by_file]
    chosen = [*(f"$this_file AS {key}" for key in by_file), *others]
    grouped = f" GROUP BY {', '.join(others)}" if others else ""
    sql = f"SELECT {', '.join(chosen)}, {aggregates}{grouped} HAVING count(*) > 0"
    parts = [table.fetched(sql, [path], this_file=str(path), **parameters) for path in table.files]
    join: Any = np.ma.concatenate  # a column is masked where any value is NULL
    return {key: join([part[key] for part in parts]) for key in parts[0]}


@dataclass(frozen=True)
class _LabelSums:
    """The labels of each domain, counted or averaged in the same pass."""

    column: LossColumn

    @property
    def inputs(self) -> dict[str, str]:
        """The label of each row, and how many classes it has probabilities of."""
        key, (label, prediction) = self.column.label_key, self.column.inputs.values()
        if self.column.expected.several:
            return {f"label_{key}": label, f"width_{key}": f"len({prediction})"}
        return {f"label_{key}": label}

    @property
    def sums(self) -> str:
        """The aggregates, in SQL."""
        key = self.column.label_key
        if self.column.expected.several:
            places = f"histogram(label_{key})"
            return (
                f"map_keys({places}) AS places_{key}, map_values({places}) AS counts_{key}, "
                f"max(width_{key}) AS most_{key}"
            )
        if self.column.has_classes:
            # Labels of usable rows are 0 and 1; to count those that are 1 would take much longer.
            return f"sum(label_{key}) AS ones_{key}"
        return f"favg(label_{key}) AS mean_{key}, var_samp(label_{key}) AS variance_{key}"

    def of(self, names: list[Name], found: Mapping[str, Any]) -> LabelStatistics:
        """What the aggregates were."""
        key, n = self.column.label_key, np.asarray(found["n"], dtype=np.float64)
        if self.column.expected.several:
            classes = int(np.max(found[f"most_{key}"]))
            counts = np.zeros((len(n), classes))
            parts = zip(found[f"places_{key}"], found[f"counts_{key}"], strict=True)
            for row, (places, each) in enumerate(parts):
                counts[row, np.asarray(places, dtype=int) - 1] = each
            return LabelStatistics(tuple(names), counts)
        if self.column.has_classes:
            ones = np.asarray(found[f"ones_{key}"], dtype=np.float64)
            return LabelStatistics(tuple(names), np.column_stack([n - ones, ones]))
        variances = np.ma.filled(found[f"variance_{key}"], 0.0) * (n - 1.0) / n
        means = np.asarray(found[f"mean_{key}"], dtype=np.float64)
        return LabelStatistics(tuple(names), n[:, None], means, variances)


def names_of_domains(table: TableFiles, names: list[str], found: Mapping[str, Any]) -> list[Name]:
    """The domain of each row that was found; raise where one is missing."""
    columns = [fetched_list(found[f"d{j}"]) for j in range(len(names))]
    absent = missing_domains(columns)
    if any(absent):
        shown = " or ".join(repr(name) for name in names)
        missing = int(np.asarray(found["n"])[absent].sum())
        place = _first_missing_domain(table, names)
        raise DomainDataError(
            f"The domain ({shown}) is missing in {missing:,} {'row' if missing == 1 else 'rows'} "
            f"(first: {place}). {ADVICE}"
        )
    return domain_names(joined_columns(columns))


def _first_missing_domain(table: TableFiles, names: list[str]) -> str:
    held = [table.column(name) for name in names if not table.is_filename(name)]
    absent = " OR ".join(f"{sql} IS NULL OR trim(CAST({sql} AS VARCHAR)) = ''" for sql in held)
    for path in table.files:
        sql = (
            f"SELECT row FROM (SELECT *, row_number() OVER () AS row FROM {table.source}) "
            f"WHERE {absent} LIMIT 1"
        )
        row = table.run(sql, [path]).fetchone()
        if row:
            return f"{path} row {row[0]}"
    return "an unknown row"


def _refuse_rows(
    table: TableFiles,
    domains: list[str],
    column: LossColumn,
    names: list[Name],
    bad: Any,
    total: int,
) -> None:
    """Look for the first rows without a usable loss, file by file, and say what is wrong."""
    label, prediction = column.shown
    shown = {"label": label, "prediction": prediction, "row": "row_number() OVER ()"}
    rows = _row_by_row(table, domains, [column], shown)
    sql = f"SELECT * EXCLUDE (l0) FROM ({rows}) WHERE l0 IS NULL LIMIT {SHOWN}"
    found: list[Row] = []
    for path in table.files:
        for *keys, y, p, row in table.run(sql, [path], **column.parameters).fetchall():
            found.append(Row(f"{path} row {row}", joined_columns([[key] for key in keys])[0], y, p))
        if len(found) >= SHOWN:
            break
    affected = [names[int(i)] for i in np.flatnonzero(bad)]
    refuse_rows(column.model, found, int(bad.sum()), total, affected, column.expected)


def missing_domains(columns: list[list[Any]]) -> list[bool]:
    """Where a column of the domain has no value."""
    return [any(is_missing(part) for part in row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, eq=False)
class PredictionTable:
    """One model in a table of files, of which every row has been checked."""

    table: TableFiles
    domains: Sequence[str]
    column: LossColumn
    grouped: GroupedLosses

    @classmethod
    def of(cls, table: TableFiles, spec: MeasurementSpec) -> PredictionTable:
        """Check all rows and measure the risk of each domain, in one pass."""
        names = [spec.domains] if isinstance(spec.domains, str) else list(spec.domains)
        (column,) = loss_columns(table, spec)
        return cls(table, names, column, grouped_losses(table, names, [column]))

    @property
    def measured(self) -> MeasuredRisks:
        """The risk of each domain."""
        return self.grouped.measured[self.column.model]

    @property
    def classes(self) -> list[str] | None:
        """The names of classes that have a column each."""
        known = self.column.expected.classes
        return None if known is None else list(known)

    def rows(
        self, numbers: Mapping[Name, int] | None = None, ordered: bool = False
    ) -> Iterator[RowsOfPredictions]:
        """The rows of the domains that have a number, which DuckDB is given by their columns.

        By default these are all, numbered as in ``measured``. ``ordered`` sorts by that number.
        """
        import pyarrow

        if numbers is None:
            numbers = {name: i for i, name in enumerate(self.measured.domains)}
        kept = [place for place, name in enumerate(self.grouped.names) if name in numbers]
        keys = {
            f"d{j}": pyarrow.array([values[place] for place in kept])
            for j, values in enumerate(self.grouped.keys)
        }
        chosen = [numbers[self.grouped.names[place]] for place in kept]
        numbered = pyarrow.table({**keys, "number": pyarrow.array(chosen, pyarrow.int32())})
        self.table.connection.register(NUMBERS, numbered)
        label, prediction = self.column.inputs
        held = {key: self.table.domain(name) for key, name in zip(keys, self.domains, strict=True)}
        rows = f"{selected({**held, **self.column.inputs})} FROM {self.table.source}"
        same = " AND ".join(f"r.{key} = n.{key}" for key in keys)
        sql = (
            f"SELECT n.number, r.{label}, r.{prediction} FROM ({rows}) r JOIN {NUMBERS} n ON {same}"
            f"{' ORDER BY n.number' * ordered}"
        )
        for batch in self.table.batches(sql, ROWS_AT_A_TIME, **self.column.parameters):
            values = column_array(batch.column(prediction))
            labels = np.asarray(batch.column(label).to_numpy(zero_copy_only=False), np.float64)
            if self.column.expected.several:
                labels = labels - 1.0  # positions in SQL are from 1
            number = batch.column("number").to_numpy(zero_copy_only=False)
            yield RowsOfPredictions(number, labels, values)


def column_array(column: Any) -> NDArray[np.float64]:
    """Numbers (k,), or lists of equally many numbers (k, K)."""
    import pyarrow

    if not pyarrow.types.is_list(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    lengths = np.diff(column.offsets.to_numpy())
    if len(set(lengths.tolist())) > 1:
        raise DomainDataError(
            f"Rows have different numbers of probabilities: {lengths.min()} and {lengths.max()}. "
            "Give every row a probability of each class."
        )
    flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    return flat.reshape(len(column), -1)
