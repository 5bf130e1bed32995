"""Losses given as a Python function, applied to files chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.data.tables.files import TableFiles
from eqrm.data.tables.frames import in_memory
from eqrm.errors import DomainDataError, MissingExtraError
from eqrm.evaluation.measuring.accumulator import RiskAccumulator
from eqrm.evaluation.measuring.columns import Question
from eqrm.evaluation.measuring.from_arrays import coded
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
    texts = [f"CAST({sql} AS VARCHAR)" for sql in domains]
    if len(texts) > 1:  # as tables_in_memory.joined
        texts = [f"replace({text}, '|', '\\|')" for text in texts]
    key = " || ' | ' || ".join(texts)
    held = ", ".join(f"{table.column(name)} AS v{i}" for i, name in enumerate(selected))
    sql = f"SELECT {key} AS d, {held} FROM {table.source}"
    gathered = {name: RiskAccumulator(across_processes=False) for name in columns}
    start = 0
    for batch in table.batches(sql, ROWS_AT_A_TIME):
        names = batch.column("d").to_pylist()
        if None in names:
            raise DomainDataError(
                f"The domain of row {start + names.index(None) + 1} is missing. "
                "Give such rows a domain of their own or drop them."
            )
        values = [_read(batch.column(f"v{i}")) for i in range(len(selected))]
        for predictions, (name, accumulator) in zip(values[1:], gathered.items(), strict=True):
            losses = as_numbers(in_memory(question.metric(values[0], predictions)))  # type: ignore[operator]
            _refuse_bad(name, losses, names, start)
            accumulator.update(losses, coded(names))
        start += len(names)
    return {name: accumulator.compute() for name, accumulator in gathered.items()}


def _read(column: Any) -> Any:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O":
        numbers = as_numbers(values)
        return values if np.isnan(numbers).any() else numbers
    return values


def _refuse_bad(name: str, losses: Any, domains: list[str], start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        i = int(bad[0])
        raise DomainDataError(
            f"{name}: the loss of row {start + i + 1} (domain {domains[i]!r}) is {losses[i]}. "
            "Losses must be finite: mend the function or the row."
        )
