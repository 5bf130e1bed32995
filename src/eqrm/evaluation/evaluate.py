"""``eqrm.evaluate``: from losses, predictions or a table per domain to an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

from eqrm.checks import refuse_unknown
from eqrm.data.tables.frames import frame_columns, is_frame
from eqrm.errors import SettingError
from eqrm.evaluation.evaluated_domains import ALL_DOMAINS, Period, evaluated
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha, checked_range
from eqrm.evaluation.measuring.from_arrays import risks_of_arrays
from eqrm.evaluation.measuring.measured import Measured
from eqrm.evaluation.measuring.measurement_spec import (
    AGGREGATED,
    Column,
    Columns,
    Loss,
    MeasurementSpec,
    nested_domains,
)
from eqrm.evaluation.references import references_of
from eqrm.level import Level
from eqrm.risks import MeasuredRisks


def evaluate(
    data: Any = None,
    predictions: Columns | None = None,
    domains: Any = None,
    *,
    within: Any = None,
    losses: Columns | None = None,
    target: Column | None = None,
    metric: Loss = "log-loss",
    clip: float = 0.0,
    aggregated: bool = False,
    columns: Mapping[str, Any] | None = None,
    model: Column | None = None,
    bounds: tuple[float, float] | None = None,
    common_domains: bool = False,
    threads: int | None = None,
    memory: str = "600MB",
    progress: bool = False,
    references: bool | None = False,
    alpha: LevelLike = 0.9,
    seen: Column | None = None,
    order: Column | None = None,
    test_after: Any = None,
    test_last: float | None = None,
    **unknown: NoReturn,
) -> Evaluation:
    """Measure models domain by domain, as a basis for statements about unseen domains.

    Ways to give what was measured:

    - **losses**, one per example, with ``domains``;
    - **labels and predictions**, with a ``metric`` by name (docs/evaluate.md has all), such as
      ``"log-loss"`` or ``"pinball:0.9"``, or a function of two arrays that gives one loss per
      example. Log-loss and Brier take the probability of label 1, or (n, K) probabilities with the
      labels as 0 … K−1. 0-1 takes classes (integers or strings), or probabilities (floats) with a
      threshold of ½. ``clip`` keeps the probabilities of the log-loss away from 0 and 1;
    - **labels and predictions with a metric of each domain**: ``"accuracy"``, ``"macro-f1"``,
      ``"average-precision"`` or ``"roc-auc"``. The risk of a domain is 1 − metric. The first two
      take classes as 0-1 does, or scores (n, K); the others scores (n,), (n, tasks) or (n, K). In
      files ``"p_{class}"`` is a column per class, ``"y_{task}"`` with ``"p_{task}"`` per task;
    - **a table per domain** (``aggregated=True``): the number of examples, the mean and the
      variance of the losses, in columns ``n``, ``mean`` and ``variance`` or as ``columns`` says
      (``{"count": …, "mean": …, "variance": …}``). ``model`` names the column that tells
      several models apart. Several rows of one domain and model are merged.

    Without ``data`` these are arrays, lists or tensors; ``evaluate(labels, predictions, domains)``
    is short for labels and predictions. With ``data`` they are names of columns:
    ``data`` is a CSV or Parquet file, a pattern such as ``"parts/*.parquet"``, a folder or a list
    of them, read by DuckDB within ``memory`` and ``threads`` (1 to 1,024), with a progress bar if
    ``progress``; or a pandas, polars or Arrow table. Several domain columns are joined into one
    domain; ``"filename"`` makes each file a domain. With ``within`` the domains are nested:
    ``domains`` are groups (hospitals) and ``within`` their members (wards), which are the
    domains, called ``"Oslo | 1"``. Certificates are then about a new member of a new group.

    Several models are compared on the same domains. Give a mapping of names to columns as
    ``losses`` or ``predictions``, or a mapping of names to files or tables as ``data``.
    Domains that a model has no examples of are an error, or left out with
    ``common_domains=True``. ``bounds`` are the least and the largest loss possible, which bounds
    on true risks need; metrics with natural bounds set them.

    ``references=True`` adds what every model should be compared with, where labels and
    predictions are given: constants, and each model with its scores shifted and scaled for the
    ``alpha``-quantile of risk, cross-fitted over domains. With None they are left out where they
    would take long.

    ``seen`` says of each row whether training has seen its domain (true or false, the same in all
    rows of a domain); in ``data`` it is the column ``seen``, if there is one, unless another is
    named. Such domains are left out, and refused where too few others remain. ``order`` is the time
    of each row, dates or numbers; domains that are dates need none. ``test_after`` evaluates the
    domains that begin strictly later (a day, a month or a year means its end), ``test_last`` the
    share of them that begins last.

    >>> import eqrm
    >>> days = ["mon"] * 2 + ["tue"] * 2 + ["wed"] * 2
    >>> labels, predictions = [1, 0, 1, 0, 1, 0], [0.9, 0.2, 0.8, 0.3, 0.2, 0.9]
    >>> found = eqrm.evaluate(labels, {"ERM": predictions}, days, metric="brier")
    >>> found["ERM"].risks.round(3).tolist()
    [0.025, 0.065, 0.725]
    """
    refuse_unknown(unknown, signature(evaluate).parameters, "eqrm.evaluate", "option")
    if target is None and losses is None and are_labels(data, predictions):
        data, target = None, data
    domains, nesting = nested_domains(data, domains, within)
    columns = {**AGGREGATED, **(columns or {})}
    given, names = locals(), [each.name for each in fields(MeasurementSpec)]
    spec = MeasurementSpec(**{name: given[name] for name in names if name in given})
    checked_alpha(alpha)
    period = Period(test_after, test_last)
    if bounds is not None:
        bounds = checked_range(bounds, "bounds")
    return evaluation_of(
        measured_models(data, spec), spec, Level.of(alpha), common_domains, bounds, period
    )


def evaluation_of(
    measured: Mapping[str, Measured],
    spec: MeasurementSpec,
    level: Level,
    common_domains: bool = False,
    bounds: tuple[float, float] | None = None,
    period: Period = ALL_DOMAINS,
) -> Evaluation:
    """The evaluation of models that were measured, on the domains that they share.

    Without those that were seen in training, and those that are not of the ``period``.
    """
    if not measured:
        raise SettingError("No model was given. Name at least one column.")
    required = spec.requirement
    if required is not None:
        measured = {name: each.by_requirement(required) for name, each in measured.items()}
    found = evaluated(measured, spec, period, common_domains)
    beside = references_of(measured, found.domains, spec, level) if spec.with_references else None
    bounds = bounds or _natural_bounds(spec, found.models)
    return replace(found, bounds=bounds, references=beside)


def measured_models(data: Any, spec: MeasurementSpec) -> dict[str, Measured]:
    """Every model on files, tables, arrays, or a mapping of models to them."""
    if isinstance(data, MeasuredRisks):
        return {"model": Measured(data)}
    if isinstance(data, Mapping) and not _is_table(data, spec.domains):
        return _of_several(data, spec)
    if is_files(data):
        from eqrm.evaluation.measuring.from_files import risks_of_files

        return risks_of_files(data, spec)
    spec.refuse_incomplete(() if data is None else frame_columns(data))
    return risks_of_arrays(spec if data is None else spec.of_table(data))


def _is_table(data: Mapping[Any, Any], domains: Any) -> bool:
    """Whether a mapping holds columns, that of the domains among them, and not models."""
    names = list(domains) if isinstance(domains, (list, tuple)) else [domains]
    return all(isinstance(name, (str, int)) and name in data for name in names)


def are_labels(data: Any, predictions: Any) -> bool:
    """Whether what was given first are labels, beside predictions: no files, table or risks."""
    if data is None or predictions is None or is_frame(data):
        return False
    if isinstance(data, (str, Path, MeasuredRisks)):
        return False
    return not (is_files(data) and is_files(predictions))  # names of files, and of columns


def is_files(data: Any) -> bool:
    """Whether data are files, patterns or folders, and not a table in memory."""
    if isinstance(data, (str, Path)):
        return True
    return isinstance(data, (list, tuple)) and all(isinstance(p, (str, Path)) for p in data)


def _of_several(data: Mapping[str, Any], spec: MeasurementSpec) -> dict[str, Measured]:
    """A file or table per model; where it holds several, their names are joined."""
    if not data:
        raise SettingError("No data was given. Give the file or table of at least one model.")
    found: dict[str, Measured] = {}
    for name, part in data.items():
        inside = measured_models(part, spec)
        single = len(inside) == 1
        found |= {str(name) if single else f"{name}: {key}": r for key, r in inside.items()}
    return found


def _natural_bounds(
    spec: MeasurementSpec, measured: Mapping[str, MeasuredRisks]
) -> tuple[float, float] | None:
    metric = spec.known_metric
    if metric is None or spec.requirement is not None:
        return None
    low, high = metric.bounds
    largest = max(float(risks.risks.max()) for risks in measured.values())
    if largest > high and metric.classes is not None:  # Brier's sum over several classes
        high = metric.classes.largest
    return (low, high) if high < float("inf") else None
