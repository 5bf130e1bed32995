"""Targets that a loss cannot judge, found before the first step and not at the last one."""

from __future__ import annotations

import torch
from torch import Tensor

from eqrm.data.domain_data import DomainData
from eqrm.errors import SettingError
from eqrm.predictors.base import Loss


def check_targets(loss: str | Loss, outputs: torch.Size, data: DomainData) -> None:
    """Refuse targets that a loss by name cannot take; ``outputs`` is the shape of a batch's.

    >>> data = DomainData(torch.zeros(2, 1), torch.tensor([1, 2]), torch.arange(2), ("a", "b"))
    >>> check_targets("binary-cross-entropy", torch.Size([2, 1]), data)
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: binary-cross-entropy needs targets between 0 and 1, but they lie
        between 1 and 2. ...
    """
    if loss == "cross-entropy" and len(outputs) == 2:
        _check_classes(data.y, outputs[1])
    elif loss == "binary-cross-entropy":
        _check_labels(data)
    elif loss == "squared":
        _refuse_missing(data, data.y.isnan())


def _check_classes(y: Tensor, outputs: int) -> None:
    if y.is_floating_point():
        raise SettingError(
            "Cross-entropy needs classes 0, 1, 2, … as targets, but y holds real numbers. Turn "
            "them into integers, or use the loss 'squared'."
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= outputs:
        raise SettingError(
            f"The targets are classes {low} to {high}, but the predictor has {outputs} outputs. "
            f"It needs {high + 1} outputs, and classes that begin at 0."
        )


def _check_labels(data: DomainData) -> None:
    """Labels are 0, 1 or between, and every example has at least one that is not missing."""
    _refuse_missing(data, data.y.reshape(len(data), -1).isnan().all(dim=1))
    present = data.y[~data.y.isnan()]
    low, high = float(present.min()), float(present.max())
    if low < 0.0 or high > 1.0:
        raise SettingError(
            f"binary-cross-entropy needs targets between 0 and 1, but they lie between {low:g} "
            f"and {high:g}. Number two classes 0 and 1, or use the loss 'cross-entropy'."
        )


def _refuse_missing(data: DomainData, missing: Tensor) -> None:
    rows = torch.nonzero(missing.reshape(len(data), -1).any(dim=1)).reshape(-1)
    if len(rows):
        domain = data.names[int(data.domains[rows[0]])]
        raise SettingError(
            f"{len(rows)} of {len(data)} examples have no target (NaN), the first in row "
            f"{int(rows[0])} (domain {domain!r}). Leave them out: DomainData.at takes rows to keep."
        )
