"""The risk of every held-out domain, measured while training and at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eqrm.data.domain_data import DomainData
from eqrm.distributions.empirical import Empirical
from eqrm.domains import NumberedDomains
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.risk_checks import LevelLike
from eqrm.evaluation.measuring.measured import LabelStatistics, Measured
from eqrm.evaluation.measuring.measurement_spec import MOST_BY_DEFAULT, MeasurementSpec
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.evaluation.measuring.set_metrics import (
    SET_METRICS,
    DomainMetric,
    SetMetric,
    set_metric,
)
from eqrm.evaluation.references import References, references_of
from eqrm.level import Level
from eqrm.objectives.risk_objective import messages_of_all
from eqrm.predictors.base import LOSSES, Loss, Predictor
from eqrm.risks import MeasuredRisks, Numbers
from eqrm.training.device_data import rows_on
from eqrm.training.processes import rank, summed, world_size

QUANTILES = (0.5, 0.9, 1.0)
LOG_LOSS, SQUARED = "log-loss", "squared"
NO_ROWS = (
    "No references: constants and recalibration are computed in one process, for classes or one "
    f"number per example, and for up to {MOST_BY_DEFAULT:,} outputs."
)


@dataclass(frozen=True, eq=False)
class HeldOutRisks(MeasuredRisks):
    """The risks of the domains of held-out data, one or more, in the order of the data.

    ``accuracies`` (m,) is None where the predictor is not a classifier. ``rows`` are what
    references are made of, after the last step and where they are known. ``metrics`` are those
    that were asked for, by name.
    """

    split: str
    loss: str
    accuracies: Numbers | None
    rows: RowsOfPredictions | None = None
    metrics: Mapping[str, DomainMetric] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean risk over domains."""
        return float(self.risks.mean())

    @property
    def accuracy(self) -> float | None:
        """The mean accuracy over domains, each counting once."""
        return None if self.accuracies is None else float(self.accuracies.mean())

    def quantile(self, level: Level | float | str) -> float:
        """The empirical quantile of the risk over these domains."""
        return float(Empirical(torch.from_numpy(self.risks)).quantile(Level.of(level)))

    def record(self, domains_listed: int | None) -> dict[str, Any]:
        """What ``metrics.jsonl`` says of an evaluation.

        It lists every domain if there are at most ``domains_listed``, or if that is None.
        """
        worst = int(self.risks.argmax())
        found: dict[str, Any] = {
            "split": self.split,
            "domains": len(self.domains),
            "mean_risk": self.mean,
            "quantiles": {f"{level:g}": self.quantile(level) for level in QUANTILES},
            "worst_domain": self.domains[worst],
        }
        if self.accuracies is not None:
            found["accuracy"] = self.accuracy
        listed = domains_listed is None or len(self.domains) <= domains_listed
        if self.metrics:
            found["metrics"] = {
                name: metric_record(each, listed) for name, each in self.metrics.items()
            }
        if listed:
            found["risks"] = dict(zip(self.domains, self.risks.tolist(), strict=True))
            if self.accuracies is not None:
                found["accuracies"] = dict(zip(self.domains, self.accuracies.tolist(), strict=True))
        return found

    @property
    def pooled(self) -> dict[str, float]:
        """The metrics of all examples together, by name; without those that are not defined."""
        values = {name: each.pooled.value for name, each in self.metrics.items()}
        return {name: value for name, value in values.items() if value is not None}

    def curves(self) -> dict[str, float]:
        """What TensorBoard shows of an evaluation."""
        found = {"mean_risk": self.mean, "worst": self.quantile(1), **self.pooled}
        return {f"{self.split}/{name}": value for name, value in found.items()}

    def evaluation(self, name: str = "predictor", alpha: LevelLike | None = None) -> Evaluation:
        """The same risks for tables, certificates and reports; needs two domains or more.

        With ``alpha`` also the references, cross-fitted over these domains: constants, and the
        predictor recalibrated for this level.
        """
        measured = MeasuredRisks.of(self.domains, self.counts, self.risks, self.variances)
        references = None if alpha is None else self._references(name, measured, Level.of(alpha))
        return Evaluation({name: measured}, self.loss, bounds=None, references=references)

    def _references(self, name: str, measured: MeasuredRisks, level: Level) -> References:
        rows = self.rows
        if rows is None:
            return References(level, notes=(NO_ROWS,))
        several, metric = rows.prediction.ndim == 2, LOG_LOSS
        classes = rows.prediction.shape[1] if several else 2
        if self.loss == SQUARED:
            metric, classes = SQUARED, 0
        labels = LabelStatistics.of_rows(tuple(self.domains), rows.domain, rows.label, classes)
        found = Measured(measured, several, labels, rows)
        spec = MeasurementSpec(self.domains, metric=metric, references=True)
        return references_of({name: found}, self.domains, spec, level)


@torch.no_grad()
def measure(
    split: str,
    predictor: Predictor,
    data: DomainData,
    batch_size: int,
    precision: Callable[[], AbstractContextManager[Any]],
    keep_rows: bool = False,
    metrics: Sequence[str] = (),
) -> HeldOutRisks:
    """The risks of a predictor on every domain of some data; ``keep_rows`` for its references.

    Examples are taken domain by domain, so that predictors which adapt to a domain (ARM, MTL)
    see it in one piece as far as ``batch_size`` allows. Several processes share the work.
    """
    order = torch.argsort(data.domains, stable=True)[rank() :: world_size()]
    was_training = predictor.training
    predictor.eval()
    outputs, device = [], next(predictor.parameters()).device
    found = [torch.zeros(3, 0, dtype=torch.float64, device=device)]
    for rows in order.split(batch_size):
        part = rows_on(device, data, rows)
        with precision():
            output = predictor(part.x, part.domains)
            measured = predictor.losses(output, part.y)
        hits = _hits(predictor, output, part.y)
        found.append(torch.stack([measured.double(), hits, part.domains.double()]))
        outputs += [output] if keep_rows or metrics else []
    predictor.train(was_training)
    losses, hits, numbers = torch.cat(found, dim=1)
    ids, zeros = numbers.long(), losses.new_zeros(data.num_domains)
    counts = summed(zeros.scatter_add(0, ids, torch.ones_like(losses)))
    risks = summed(zeros.scatter_add(0, ids, losses)) / counts
    squares = summed(zeros.scatter_add(0, ids, (losses - risks[ids]) ** 2))
    accuracies = summed(zeros.scatter_add(0, ids, hits)) / counts
    _refuse_bad(split, data.names, risks)
    several = counts > 1
    variances = torch.where(several, squares / torch.where(several, counts - 1, 1.0), torch.nan)
    return HeldOutRisks(
        split=split,
        loss=predictor.loss if isinstance(predictor.loss, str) else "loss",
        domains=data.names,
        counts=counts.cpu().numpy().astype(np.int64),
        risks=risks.cpu().numpy(),
        variances=variances.cpu().numpy(),
        accuracies=None if bool(accuracies.isnan().any()) else accuracies.cpu().numpy(),
        rows=_rows(predictor, data, order, outputs) if keep_rows else None,
        metrics=metrics_of_outputs(metrics, predictor.loss, data, order, outputs)
        if metrics
        else {},
    )


def _rows(
    predictor: Predictor, data: DomainData, order: Tensor, outputs: list[Tensor]
) -> RowsOfPredictions | None:
    """Labels and predictions of all examples; None where references are not defined."""
    y = data.y[order.to(data.y.device)].cpu().numpy().astype(np.float64)
    scores = torch.cat(outputs).double().cpu()
    known = predictor.loss in LOSSES and len(y) == y.size
    if world_size() > 1 or not known or scores.numel() > MOST_BY_DEFAULT:
        return None
    labels, domains = y.reshape(-1), data.domains[order.to(data.domains.device)].cpu().numpy()
    if predictor.loss == SQUARED:
        predictions = scores.reshape(-1)
    elif predictor.loss == "binary-cross-entropy" and not np.isin(labels, (0.0, 1.0)).all():
        return None
    else:
        chances = predictor.class_logits(scores).softmax(dim=1)
        predictions = chances[:, 1] if chances.shape[1] == 2 else chances
    return RowsOfPredictions(domains.astype(np.int32), labels, predictions.numpy())


def _hits(predictor: Predictor, outputs: Tensor, y: Tensor) -> Tensor:
    """1 where the class is right; with several labels, the share of them that is."""
    if predictor.loss == "cross-entropy":
        return (outputs.argmax(dim=1) == y.reshape(-1)).double()
    if predictor.loss == "binary-cross-entropy":
        labels = y.reshape(len(outputs), -1)
        right = ((outputs.reshape(labels.shape) > 0) == (labels > 0.5)).double()
        present = ~labels.isnan() if labels.is_floating_point() else torch.ones_like(right).bool()
        return (right * present).sum(dim=1) / present.sum(dim=1)
    return torch.full((len(outputs),), torch.nan, dtype=torch.float64, device=outputs.device)


def _refuse_bad(split: str, names: tuple[str, ...], risks: Tensor) -> None:
    bad = torch.nonzero(~risks.isfinite()).reshape(-1)
    if len(bad):
        first = int(bad[0])
        raise DomainDataError(
            f"The risk of domain {names[first]!r} of the {split} data is {float(risks[first])}. "
            "Risks must be finite: lower the learning rate, clip gradients, or check the data."
        )


CLASSES, LABELS = "cross-entropy", "binary-cross-entropy"
Array = NDArray[Any]


def check_metrics(
    names: Sequence[str], loss: str | Loss, outputs: torch.Size, data: DomainData
) -> None:
    """Refuse metrics that a predictor and its data cannot have; ``outputs`` is a batch's shape."""
    tasks, y = data.y[:1].numel(), data.y
    for metric in map(set_metric, names):
        classes = loss == CLASSES and len(outputs) == 2 and tasks == 1
        whole = loss == LABELS and bool((y.isnan() | (y == 0) | (y == 1)).all())
        if not classes and not (whole and (tasks == 1 or metric.ranks)):
            ranked = " and ".join(each.name for each in SET_METRICS.values() if each.ranks)
            raise SettingError(
                f"The metric {metric.name!r} needs one class per example (the loss {CLASSES!r}) or "
                f"labels 0 and 1 ({LABELS!r}; of several tasks for {ranked} only), but the loss is "
                f"{'a function' if callable(loss) else repr(loss)} and targets, between "
                f"{float(y.min()):g} and {float(y.max()):g}, have the shape {tuple(y.shape)}. "
                "Remove it from training.metrics."
            )


def metrics_of_outputs(
    names: Sequence[str],
    loss: str | Loss,
    data: DomainData,
    rows: Tensor,
    outputs: Sequence[Tensor],
) -> dict[str, DomainMetric]:
    """The metrics by name; of several processes each gives its part of the rows."""
    scores = _of_all(torch.cat(list(outputs)) if outputs else torch.zeros(0))
    order = _of_all(rows)
    y = data.y[order.to(data.y.device)].cpu()
    ids = data.domains[order.to(data.domains.device)].cpu().numpy()
    domains = NumberedDomains(ids.astype(np.int64), data.names)
    return {
        metric.name: DomainMetric.of(metric, *_read(metric, loss, y, scores), domains)
        for metric in map(set_metric, names)
    }


def _read(metric: SetMetric, loss: str | Loss, y: Tensor, scores: Tensor) -> tuple[Array, Array]:
    """Labels and predictions in a form that the metric takes."""
    if loss == CLASSES:
        given = scores.softmax(dim=1) if metric.ranks else scores
        return y.reshape(-1).numpy(), given.numpy()
    labels = y.reshape(len(scores), -1)
    logits = scores.reshape(labels.shape)
    if metric.ranks:
        return labels.double().numpy(), logits.numpy()
    return labels[:, 0].long().numpy(), (logits[:, 0] > 0).long().numpy()


def _of_all(own: Tensor) -> Tensor:
    """The rows of all processes, in the order of their ranks; numbers as float64."""
    rows = own.detach().double().cpu() if own.is_floating_point() else own.cpu()
    return torch.cat(messages_of_all(rows.contiguous()))


def metric_record(metric: DomainMetric, listed: bool) -> dict[str, Any]:
    """What ``metrics.jsonl`` says of a metric (docs/training.md); every domain's if ``listed``."""
    found: dict[str, Any] = {
        "pooled": metric.pooled.value,
        "mean": metric.mean,
        "defined": metric.defined,
    }
    if listed:
        values = zip(metric.domains, metric.values, strict=True)
        found["domains"] = {str(name): each.value for name, each in values}
    return found
