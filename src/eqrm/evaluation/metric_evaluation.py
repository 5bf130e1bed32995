"""Metrics that are not means of losses, per domain and pooled: ``eqrm.evaluation.evaluate_metric``.

A domain that cannot have the metric (of one class, without labels) is counted and named, and is in
no mean or quantile over domains. With R = 1 − metric as the risk of a domain, risk tables,
comparisons and certificates are those of every :class:`Evaluation`. Sampling noise and bounds on
true risks need means of losses, so that there are none here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import one_of
from eqrm.data.tables.frames import in_memory
from eqrm.domains import Name, number_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.evaluate import is_files
from eqrm.evaluation.evaluated_domains import left_out_in_words
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.domain_columns import facts_of_arrays
from eqrm.evaluation.measuring.measurement_spec import Column, Columns, MeasurementSpec
from eqrm.evaluation.measuring.set_metrics import (
    MetricValue,
    SetMetric,
    refuse_other_classes,
    set_metric,
)
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.table_cells import Cell
from eqrm.risks import FEWEST_DOMAINS, MeasuredRisks
from eqrm.text import aligned, counted, csv_text, listed, one_line


@dataclass(frozen=True, eq=False)
class DomainMetric:
    """A metric of one predictor: of all examples together (``pooled``), and of each domain.

    ``values`` are in the order of ``domains``; one that is not defined is None, with the reason.
    """

    pooled: MetricValue
    domains: tuple[Name, ...]
    counts: NDArray[np.int64]
    values: tuple[MetricValue, ...]

    @classmethod
    def of(cls, metric: SetMetric, labels: Any, predictions: Any, domains: Any) -> DomainMetric:
        """Of labels and predictions (n, …), with the domain of each example (n,)."""
        y, given = metric.read(labels, predictions)
        if not metric.ranks and np.asarray(predictions).dtype.kind in "OSU":
            refuse_other_classes(y, given)
        numbered = number_domains(domains, len(y))
        ids, groups = numbered.ids, len(numbered.names)
        counts = np.bincount(ids, minlength=groups)
        found = metric.of_groups(y, given, ids, groups)
        return cls(metric.of_read(y, given), numbered.names, counts, found)

    @cached_property
    def undefined(self) -> dict[Name, str]:
        """Domains that cannot have the metric, and why."""
        named = zip(self.domains, self.values, strict=True)
        return {name: found.reason for name, found in named if found.value is None}

    @property
    def defined(self) -> int:
        """How many domains have the metric."""
        return len(self.domains) - len(self.undefined)

    @property
    def mean(self) -> float | None:
        """The mean over the domains that have the metric; None if there are none."""
        found = [each.value for each in self.values if each.value is not None]
        return float(np.mean(found)) if found else None

    @cached_property
    def risks(self) -> MeasuredRisks:
        """1 − metric of the domains that have it; raises if there are fewer than two."""
        have = [i for i, found in enumerate(self.values) if found.value is not None]
        if len(have) < FEWEST_DOMAINS:
            raise DomainDataError(
                f"The metric is defined in {counted(len(have), 'domain')} of "
                f"{len(self.domains):,}, but at least two are needed to see how it varies. Give "
                "larger domains, or use another column as the domain."
            )
        risks = [1.0 - (self.values[i].value or 0.0) for i in have]
        names = [self.domains[i] for i in have]
        return MeasuredRisks.of(names, self.counts[have], risks, np.full(len(have), np.nan))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; a value that is not defined is None."""
        return {
            "pooled": self.pooled.value,
            "reason": self.pooled.reason,
            "domains": [
                {"domain": name, "n": n, "value": found.value, "reason": found.reason}
                for name, n, found in zip(
                    self.domains, self.counts.tolist(), self.values, strict=True
                )
            ],
        }


@dataclass(frozen=True, eq=False)
class MetricEvaluation:
    """Predictors by name, each with a metric of every domain and of all examples.

    ``seen`` are domains that were left out because training has seen them. Made by
    :func:`evaluate_metric`.
    """

    metric: str
    predictors: Mapping[str, DomainMetric]
    seen: tuple[Name, ...] = ()

    def __getitem__(self, predictor: str) -> DomainMetric:
        return self.predictors[one_of(predictor, self.predictors, "predictor")]

    def __len__(self) -> int:
        return len(self.predictors)

    def __repr__(self) -> str:
        return f"<MetricEvaluation: {self.sentence}>"

    def __str__(self) -> str:
        return self.to_text()

    @property
    def sentence(self) -> str:
        """What was measured, and which domains cannot have the metric."""
        first = next(iter(self.predictors.values()))
        who = "One predictor" if len(self) == 1 else f"{len(self)} predictors"
        text = (
            f"{who} measured by {self.metric} on {counted(int(first.counts.sum()), 'example')} "
            f"in {counted(len(first.domains), 'domain')}.{left_out_in_words(self.seen, ())}"
        )
        for reason, number in Counter(first.undefined.values()).items():
            names = [name for name, why in first.undefined.items() if why == reason]
            text += f" Not defined in {counted(number, 'domain')}: {reason} ({listed(names, 3)})."
        return text

    @property
    def varies(self) -> bool:
        """Whether at least two domains have the metric, as tables over domains need."""
        first = next(iter(self.predictors.values()))
        return first.defined >= FEWEST_DOMAINS

    @cached_property
    def evaluation(self) -> Evaluation:
        """The risk 1 − metric of the domains that have it: risk tables, comparisons, certificates.

        They are about the measured metric of new domains of similar size, and have no noise split.
        """
        risks = {name: each.risks for name, each in self.predictors.items()}
        return Evaluation(risks, f"1 − {self.metric}", None, seen=self.seen)

    def means(self, confidence: float = 0.95) -> dict[str, Cell]:
        """The mean of the metric over the domains that have it, with a confidence interval."""
        table = self.evaluation.risk_table((), (), confidence=confidence, worst=0)
        return {name: _of_metric(cells[0]) for name, cells in table.cells.items()}

    def to_text(self, table: RiskTable | None = None, intervals: bool = True) -> str:
        """Pooled and mean over domains, then the risk table of 1 − metric."""
        first = next(iter(self.predictors.values()))
        have = first.defined
        rows = [["", *map(one_line, self.predictors)]]
        rows.append(["pooled examples", *(str(each.pooled) for each in self.predictors.values())])
        if not self.varies:
            why = f"{counted(have, 'domain')} of {len(first.domains)} have it, too few for a mean."
            return f"{self.sentence}\n\n{aligned(rows)}\n\n{self.metric}: {why}"
        table = self.evaluation.risk_table() if table is None else table
        cells = [_of_metric(row[0]) for row in table.cells.values()]
        rows.append([f"mean of {have:,} domains", *(cell.text for cell in cells)])
        if intervals and any(cell.interval for cell in cells):
            rows.append(["", *(cell.interval for cell in cells)])
        return "\n\n".join(
            [
                self.sentence,
                f"{self.metric}, the higher the better\n{aligned(rows)}",
                f"Risk is 1 − {self.metric}, of the domains that have it\n"
                f"{table.to_text(intervals)}",
            ]
        )

    def to_csv(self) -> str:
        """A line per predictor and domain, with all digits; the first is of all examples."""
        rows: list[list[object]] = [["predictor", "set", "domain", "n", self.metric, "reason"]]
        for name, each in self.predictors.items():
            of_sets = [("pooled", "", int(each.counts.sum()), each.pooled)]
            parts = zip(each.domains, each.counts.tolist(), each.values, strict=True)
            of_sets += [("domain", str(domain), n, found) for domain, n, found in parts]
            for kind, domain, n, found in of_sets:
                value = "" if found.value is None else repr(found.value)
                rows.append([name, kind, domain, n, value, found.reason])
        return csv_text(rows).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Everything measured, in plain types."""
        return {
            "metric": self.metric,
            "predictors": {name: each.to_dict() for name, each in self.predictors.items()},
            "seen": list(self.seen),
        }


def evaluate_metric(
    data: Any = None,
    *,
    metric: str,
    domains: Any,
    labels: Column,
    predictions: Columns,
    threads: int | None = None,
    memory: str = "600MB",
    progress: bool = False,
    seen: Column | None = None,
) -> MetricEvaluation:
    """A metric that is not a mean of losses, of each domain and of all examples together.

    ``metric`` is "accuracy", "macro-f1", "average-precision" or "roc-auc", as WILDS and OGB compute
    them. The first two take classes (n,), probabilities (n,) of label 1 with a threshold of ½, or
    scores (n, K) of the classes 0 … K−1; the other two take scores (n,) with labels 0 and 1, scores
    (n, tasks) with labels (n, tasks) that may be missing (NaN), or scores (n, K) of classes.
    ``domains``, ``labels`` and ``seen`` are arrays, or names of columns of ``data``, a frame or
    files as for :func:`eqrm.evaluate`; ``predictions`` too, or a mapping of predictors to them. In
    files "p_{class}" is a column of scores per class, and "y_{task}" with "p_{task}" a column per
    task. Domains that are ``seen`` in training are left out.

    >>> from eqrm.evaluation import evaluate_metric
    >>> found = evaluate_metric(
    ...     metric="roc-auc",
    ...     domains=["a", "a", "b", "b", "c"],
    ...     labels=[0, 1, 0, 1, 1],
    ...     predictions=[0.1, 0.8, 0.7, 0.2, 0.6],
    ... )
    >>> [str(each) for each in found["predictor"].values]
    ['1.0000', '0.0000', 'not defined: one class']
    >>> str(found["predictor"].pooled), found.means()["predictor"].value
    ('0.6667', 0.5)
    """
    measure = set_metric(metric)
    reading: dict[str, Any] = {"threads": threads, "memory": memory, "progress": progress}
    spec = MeasurementSpec(domains, None, labels, predictions, metric, seen=seen, **reading)
    spec.refuse_incomplete()
    if is_files(data):
        from eqrm.evaluation.measuring.metric_rows import metric_rows

        rows = metric_rows(data, spec)
        return _measured(measure, rows.domains, rows.labels, rows.predictions, rows.seen)
    if data is not None:
        spec = spec.of_table(data)
    given = spec.predictions
    by_name = given if isinstance(given, Mapping) else {"predictor": given}
    known = facts_of_arrays(spec).seen or frozenset()
    columns = {str(name): in_memory(column) for name, column in by_name.items()}
    labels = dict.fromkeys(columns, in_memory(spec.labels))
    return _measured(measure, spec.domains, labels, columns, known)


def _measured(
    metric: SetMetric,
    domains: Any,
    labels: Mapping[str, NDArray[Any]],
    predictions: Mapping[str, NDArray[Any]],
    known: frozenset[str],
) -> MetricEvaluation:
    """The metric of every predictor, on the domains that training does not know."""
    if not predictions:
        raise SettingError("No predictor was given. Name at least one column.")
    examples = len(next(iter(labels.values())))
    numbered = number_domains(domains, examples)
    seen = tuple(name for name in numbered.names if str(name) in known)
    new = np.array([str(name) not in known for name in numbered.names])[numbered.ids]
    if not new.any():
        raise DomainDataError(
            f"Training has seen all {counted(len(seen), 'domain')}. Evaluate predictions for "
            "domains that the model was not trained on."
        )
    kept = np.array(numbered.names, dtype=object)[numbered.ids[new]]
    found = {}
    for name, column in predictions.items():
        if column.shape[:1] != (examples,):
            raise DomainDataError(
                f"{name}: there are {counted(examples, 'label')} and "
                f"{counted(len(np.atleast_1d(column)), 'prediction')}. Give one per example."
            )
        try:
            found[name] = DomainMetric.of(metric, labels[name][new], column[new], kept)
        except DomainDataError as error:
            raise DomainDataError(f"{name}: {error}") from None
    return MetricEvaluation(metric.name, found, seen)


def _of_metric(cell: Cell) -> Cell:
    """The cell of a mean of 1 − metric as that of the metric, whose range is 0 to 1."""
    low = None if cell.high is None else max(0.0, 1.0 - cell.high)
    high = None if cell.low is None else min(1.0, 1.0 - cell.low)
    return Cell(1.0 - cell.value, low, high, cell.error, needed=cell.needed)
