"""Losses given as a Python function, applied to files chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.checks import is_missing
from eqrm.data.tables.files import TableFiles
from eqrm.data.tables.frames import in_memory
from eqrm.domains import ADVICE, joined_name
from eqrm.errors import DomainDataError, MissingExtraError
from eqrm.evaluation.measuring.accumulator import RiskAccumulator
from eqrm.evaluation.measuring.columns import Question
from eqrm.evaluation.measuring.loss_columns import named_columns
from eqrm.evaluation.measuring.measured_risks import MeasuredRisks
from eqrm.evaluation.measuring.metrics import as_numbers

ROWS_AT_A_TIME = 500_000


def risks_of_function(
    table: TableFiles, question: Question, domains: list[str]
) -> dict[str, MeasuredRisks]:
    """The measured risks of each predictor; the function sees some 100,000 rows at a time.

    ``domains`` are SQL expressions. Numbers in CSV files arrive as float64, and other columns
    as they are.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables", "A loss function over files") from error
    columns = named_columns(table, question.predictions)
    selected = [question.labels, *columns.values()]
    keys = ", ".join(f"{sql} AS d{j}" for j, sql in enumerate(domains))
    held = ", ".join(f"{table.column(name)} AS v{i}" for i, name in enumerate(selected))
    sql = f"SELECT {keys}, {held} FROM {table.source}"
    gathered = {name: RiskAccumulator(across_processes=False) for name in columns}
    start = 0
    for batch in table.batches(sql, ROWS_AT_A_TIME):
        names = _domains_of(batch, len(domains))
        absent = next((i for i, name in enumerate(names) if is_missing(name)), None)
        if absent is not None:
            raise DomainDataError(f"The domain of row {start + absent + 1} is missing. {ADVICE}")
        values = [_read(batch.column(f"v{i}")) for i in range(len(selected))]
        for predictions, (name, accumulator) in zip(values[1:], gathered.items(), strict=True):
            losses = as_numbers(in_memory(question.metric(values[0], predictions)))  # type: ignore[operator]
            _refuse_bad(name, losses, names, start)
            accumulator.update(losses, names)
        start += len(names)
    return {name: accumulator.compute() for name, accumulator in gathered.items()}


def _domains_of(batch: Any, columns: int) -> list[Any]:
    parts = [batch.column(f"d{j}").to_pylist() for j in range(columns)]
    return parts[0] if columns == 1 else [joined_name(row) for row in zip(*parts, strict=True)]


def _read(column: Any) -> Any:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O":
        numbers = as_numbers(values)
        return values if np.isnan(numbers).any() else numbers
    return values


def _refuse_bad(name: str, losses: Any, domains: list[Any], start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        i = int(bad[0])
        raise DomainDataError(
            f"{name}: the loss of row {start + i + 1} (domain {domains[i]!r}) is {losses[i]}. "
            "Losses must be finite: fix the function or the row."
        )
