"""``eqrm.evaluate``: from losses, predictions or a table per domain to an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eqrm.data.tables.frames import column as column_of
from eqrm.data.tables.frames import in_memory
from eqrm.errors import SettingError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring import aggregated as aggregated_tables
from eqrm.evaluation.measuring import from_arrays
from eqrm.evaluation.measuring.class_probabilities import largest_class_loss
from eqrm.evaluation.measuring.columns import (
    AGGREGATED,
    Column,
    Columns,
    Loss,
    Question,
    refuse_incomplete,
    refuse_unknown_columns,
    several_columns,
)
from eqrm.evaluation.measuring.measured_risks import MeasuredRisks, paired


def evaluate(
    data: Any = None,
    *,
    domains: Any = None,
    losses: Columns | None = None,
    labels: Column | None = None,
    predictions: Columns | None = None,
    metric: Loss = "log-loss",
    clip: float = 0.0,
    aggregated: bool = False,
    columns: Mapping[str, Any] | None = None,
    predictor: Column | None = None,
    bounds: tuple[float, float] | None = None,
    common_domains: bool = False,
    threads: int | None = None,
    memory: str = "600MB",
    progress: bool = False,
) -> Evaluation:
    """How predictors do over domains, and what that says about domains not seen.

    Three ways to give what was measured:

    - **losses**, one per example, with ``domains``;
    - **labels and predictions**, with a ``metric``: ``"log-loss"``, ``"brier"``, ``"0-1"``,
      ``"squared"``, ``"absolute"``, ``"pinball:0.9"``, or a function of two arrays that gives
      one loss per example. Log-loss and Brier take the probability of label 1, or (n, K)
      probabilities with the labels as 0 … K−1. 0-1 takes classes (integers or texts), or
      probabilities (floats), which are cut at ½. ``clip`` keeps the probabilities of the
      log-loss away from 0 and 1;
    - **a table per domain** (``aggregated=True``): the number of examples, the mean and the
      variance of the losses, in columns ``n``, ``mean`` and ``variance`` or as ``columns`` says
      (``{"count": …, "mean": …, "variance": …}``). ``predictor`` names the column that tells
      several predictors apart.

    Without ``data`` these are arrays, lists or tensors. With ``data`` they are names of
    columns: ``data`` is a CSV or Parquet file, a pattern such as ``"parts/*.parquet"``, a folder
    or a list of them, read by DuckDB within ``memory`` and ``threads``, with a bar if
    ``progress``; or a pandas, polars or Arrow table. Several domain columns together make a
    domain; ``"filename"`` is the file's.

    Several predictors are compared on the same domains. Give a mapping of names to columns as
    ``losses`` or ``predictions``, or a mapping of names to files or tables as ``data``.
    ``common_domains=True`` leaves out domains that a predictor lacks, instead of refusing.
    ``bounds`` are the least and the largest loss possible, for bounds on true risks; metrics
    with natural bounds bring them.

    >>> import eqrm
    >>> days = ["mon"] * 2 + ["tue"] * 2 + ["wed"] * 2
    >>> found = eqrm.evaluate(
    ...     domains=days,
    ...     labels=[1, 0, 1, 0, 1, 0],
    ...     predictions={
    ...         "ERM": [0.9, 0.2, 0.8, 0.3, 0.2, 0.9],
    ...         "EQRM": [0.7, 0.4, 0.6, 0.4, 0.5, 0.5],
    ...     },
    ...     metric="brier",
    ... )
    >>> found["ERM"].risks.round(3).tolist(), found["EQRM"].risks.round(3).tolist()
    ([0.025, 0.065, 0.725], [0.125, 0.16, 0.25])
    """
    if columns is not None:
        refuse_unknown_columns(columns)
    question = Question(
        domains=domains,
        losses=losses,
        labels=labels,
        predictions=predictions,
        metric=metric,
        clip=clip,
        aggregated=aggregated,
        predictor=predictor,
        columns={**AGGREGATED, **(columns or {})},
        threads=threads,
        memory=memory,
        progress=progress,
    )
    if bounds is not None:
        bounds = _checked_bounds(bounds)
    measured = _measured(data, question)
    if not measured:
        raise SettingError("There is no predictor: name at least one column.")
    return Evaluation(
        predictors=paired(measured, common_domains),
        loss=question.name_of_loss,
        bounds=bounds or _bounds(question, measured),
    )


def _measured(data: Any, question: Question) -> dict[str, MeasuredRisks]:
    if isinstance(data, MeasuredRisks):
        return {"predictor": data}
    if isinstance(data, Mapping) and not _is_table(data, question.domains):
        return _of_several(data, question)
    refuse_incomplete(question)
    if data is None:
        return _of_arrays(question)
    if _is_files(data):
        from eqrm.evaluation.measuring.from_files import risks_of_files

        return risks_of_files(data, question)
    return _of_arrays(_columns_of(data, question))


def _is_table(data: Mapping[Any, Any], domains: Any) -> bool:
    """Whether a mapping holds columns, that of the domains among them, and not predictors."""
    names = list(domains) if isinstance(domains, (list, tuple)) else [domains]
    return all(isinstance(name, (str, int)) and name in data for name in names)


def _of_several(data: Mapping[str, Any], question: Question) -> dict[str, MeasuredRisks]:
    """A file or table per predictor; where it holds several, their names are joined."""
    if not data:
        raise SettingError("There is no data: give at least one predictor.")
    found: dict[str, MeasuredRisks] = {}
    for name, part in data.items():
        inside = _measured(part, question)
        single = len(inside) == 1
        found |= {str(name) if single else f"{name}: {key}": r for key, r in inside.items()}
    return found


def _of_arrays(question: Question) -> dict[str, MeasuredRisks]:
    if question.aggregated:
        return _of_aggregated_arrays(question)
    metric = question.known_metric
    if question.losses is not None:
        return {
            name: from_arrays.risks_of_losses(name, column, question.domains)
            for name, column in _by_name(question.losses, "predictor").items()
        }
    found = {}
    for name, column in _by_name(question.predictions, "predictor").items():
        given = (name, question.labels, column, question.domains)
        if metric is None:
            found[name] = from_arrays.risks_of_function(*given, question.metric)  # type: ignore[arg-type]
        else:
            found[name] = from_arrays.risks_of_predictions(*given, metric, question.clip)
    return found


def _of_aggregated_arrays(question: Question) -> dict[str, MeasuredRisks]:
    import numpy as np

    columns = [question.domains, *(question.columns[key] for key in AGGREGATED)]
    if any(isinstance(column, str) for column in columns):
        raise SettingError(
            "Without data, columns must hold the arrays of a table per domain: "
            "columns={'count': …, 'mean': …, 'variance': …}."
        )
    if question.predictor is None:
        return {"predictor": aggregated_tables.risks_of_table(*columns)}
    aggregated_tables.refuse_missing_predictors(np.asarray(question.predictor))
    of_predictor = np.asarray(question.predictor).astype(str)
    arrays = [in_memory(column) for column in columns]
    return {
        name: aggregated_tables.risks_of_table(*(a[of_predictor == name] for a in arrays))
        for name in dict.fromkeys(of_predictor.tolist())
    }


def _columns_of(table: Any, question: Question) -> Question:
    """The question about a table in memory, as a question about arrays."""
    if question.aggregated:
        return replace(
            question,
            domains=column_of(table, question.domains),
            columns={key: column_of(table, name) for key, name in question.columns.items()},
            predictor=None if question.predictor is None else column_of(table, question.predictor),
        )
    return replace(
        question,
        domains=column_of(table, question.domains),
        losses=several_columns(table, question.losses),
        labels=None if question.labels is None else column_of(table, question.labels),
        predictions=several_columns(table, question.predictions),
    )


def _by_name(columns: Any, otherwise: str) -> dict[str, Any]:
    if isinstance(columns, Mapping):
        return {str(name): column for name, column in columns.items()}
    return {otherwise: columns}


def _is_files(data: Any) -> bool:
    if isinstance(data, (str, Path)):
        return True
    return isinstance(data, (list, tuple)) and all(isinstance(p, (str, Path)) for p in data)


def _checked_bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low = high = float("nan")
    if not float("-inf") < low < high < float("inf"):
        raise SettingError(
            "bounds must be two finite numbers, the least and the largest loss possible, but "
            f"they are {bounds!r}. Leave them out where the loss has none."
        )
    return low, high


def _bounds(
    question: Question, measured: Mapping[str, MeasuredRisks]
) -> tuple[float, float] | None:
    metric = question.known_metric
    if metric is None:
        return None
    low, high = metric.bounds
    largest = max(float(risks.risks.max()) for risks in measured.values())
    if largest > high:  # Brier's sum over several classes
        high = largest_class_loss(metric)
    return (low, high) if high < float("inf") else None
