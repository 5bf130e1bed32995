"""Metrics of held-out data that are not means of losses, while training and at its end.

They are those of :mod:`eqrm.evaluation.measuring.set_metrics`, as WILDS and OGB compute them. A
classifier is measured by its most likely class (accuracy, macro-F1) or by the probability of each
class (average precision, ROC-AUC); with the loss "binary-cross-entropy" every label is a task,
ranked by its logit, and labels that are missing (NaN) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eqrm.data.domain_data import DomainData
from eqrm.domains import NumberedDomains
from eqrm.errors import SettingError
from eqrm.evaluation.measuring.set_metrics import (
    SET_METRICS,
    DomainMetric,
    SetMetric,
    set_metric,
)
from eqrm.predictors.base import Loss
from eqrm.text import counted
from eqrm.training.processes import messages_of_all, world_size

CLASSES, LABELS = "cross-entropy", "binary-cross-entropy"
Array = NDArray[Any]


def check_metrics(
    names: Sequence[str], loss: str | Loss, outputs: torch.Size, data: DomainData
) -> None:
    """Refuse metrics that a predictor and its data cannot have; ``outputs`` is a batch's shape.

    >>> data = DomainData(torch.zeros(2, 1), torch.zeros(2), torch.arange(2), ("a", "b"))
    >>> check_metrics(["macro-f1"], "squared", torch.Size([2, 1]), data)
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: The metric 'macro-f1' needs classes (the loss 'cross-entropy') or
        labels 0 and 1 ('binary-cross-entropy'), but the loss is 'squared'. ...
    """
    for name in names:
        metric, tasks = set_metric(name), data.y[:1].numel()
        if loss not in (CLASSES, LABELS):
            shown = "a function" if callable(loss) else repr(loss)
            raise SettingError(
                f"The metric {name!r} needs classes (the loss {CLASSES!r}) or labels 0 and 1 "
                f"({LABELS!r}), but the loss is {shown}. Change "
                "the loss, or remove it from training.metrics."
            )
        if loss == CLASSES and (len(outputs) != 2 or tasks != 1):
            raise SettingError(
                f"The metric {name!r} needs one class and a score of each class per example, but "
                f"targets are {tuple(data.y.shape)} and outputs (n, {_shown(outputs)}). Remove it "
                "from training.metrics."
            )
        if loss == LABELS and tasks > 1 and not metric.ranks:
            ranked = " or ".join(each.name for each in SET_METRICS.values() if each.ranks)
            raise SettingError(
                f"The metric {name!r} needs one class per example, but examples have labels of "
                f"{tasks} tasks. Use {ranked} in training.metrics."
            )
        if loss == LABELS:
            _refuse_soft(name, data.y)


def _shown(outputs: torch.Size) -> str:
    return ", ".join(map(str, outputs[1:]))


def _refuse_soft(name: str, y: Tensor) -> None:
    soft = y[~(y.isnan() | (y == 0) | (y == 1))]
    if len(soft):
        raise SettingError(
            f"The metric {name!r} needs labels 0 and 1, but {counted(len(soft), 'label')} lie "
            f"between them, such as {float(soft[0]):g}. Remove it from training.metrics."
        )


def metrics_of_outputs(
    names: Sequence[str],
    loss: str | Loss,
    data: DomainData,
    rows: Tensor,
    outputs: Sequence[Tensor],
) -> dict[str, DomainMetric]:
    """The metrics by name, of the ``outputs`` for the ``rows`` of some data.

    Of several processes each gives its part of the rows, and all get the metrics of all rows.
    """
    scores = _of_all(torch.cat(list(outputs)) if outputs else torch.zeros(0))
    order = _of_all(rows)
    y = data.y[order.to(data.y.device)].cpu()
    ids = data.domains[order.to(data.domains.device)].cpu().numpy()
    domains = NumberedDomains(ids.astype(np.int64), data.names)
    found = {}
    for metric in map(set_metric, names):
        found[metric.name] = DomainMetric.of(metric, *_read(metric, loss, y, scores), domains)
    return found


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
    if world_size() == 1:
        return rows
    from safetensors.torch import load, save

    parts = [load(part)["rows"] for part in messages_of_all(save({"rows": rows.contiguous()}))]
    return torch.cat([part for part in parts if len(part)])


def metric_record(metric: DomainMetric, listed: bool) -> dict[str, Any]:
    """What ``metrics.jsonl`` says of a metric: None where it is not defined.

    ``defined`` is the number of domains that have it, over which ``mean`` is; ``listed`` adds the
    value of every domain.
    """
    found: dict[str, Any] = {
        "pooled": metric.pooled.value,
        "mean": metric.mean,
        "defined": metric.defined,
    }
    if listed:
        values = zip(metric.domains, metric.values, strict=True)
        found["domains"] = {str(name): each.value for name, each in values}
    return found
