"""The published scalings of the loss, by name. Training applies them; objectives never do.

The code beside the paper rescales losses where the paper says nothing of it. A constant factor
does not move a minimum, but it changes the step of a given learning rate at the moment an
objective takes over, so a reproduction needs it. DomainBed's EQRM has no such scaling.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from eqrm.checks import one_of
from eqrm.errors import SettingError
from eqrm.objectives.base import LOSS_SCALINGS, Objective
from eqrm.objectives.batch import Batch, mean_risk
from eqrm.objectives.risk_based import ERM
from eqrm.objectives.risk_objective import RiskObjective, several_processes
from eqrm.predictors.base import Predictor

GRADIENT_RATIO, PENALTY_WEIGHT = "gradient-norm-ratio", "penalty-weight"


@dataclass(frozen=True)
class LossScaling:
    """What a phase of training divides all its losses by, measured when the phase begins.

    For ``"gradient-norm-ratio"``, as in the published ColoredMNIST code, it is ‖∇objective‖ at
    that moment over ‖∇ERM‖ at the first step of the whole run.

    >>> from eqrm.objectives.penalties import IRM
    >>> LossScaling("penalty-weight").divisor(IRM(penalty_weight=1000.0))
    1000.0
    >>> LossScaling("penalty-weight").divisor(IRM(penalty_weight=0.5))
    1.0
    """

    name: str = "none"

    def __post_init__(self) -> None:
        one_of(self.name, LOSS_SCALINGS, "loss scaling")

    def check(self, objective: Objective) -> None:
        """Raise if the losses of this objective cannot be scaled this way."""
        if self.name == PENALTY_WEIGHT and not hasattr(objective, "penalty_weight"):
            raise SettingError(
                f"The loss scaling {self.name!r} needs an objective with a penalty_weight; "
                f"{type(objective).__name__} has none."
            )
        if self.name == GRADIENT_RATIO and not isinstance(objective, RiskObjective):
            raise SettingError(
                f"The loss scaling {self.name!r} compares a function of the risks (such as EQRM) "
                f"with ERM, which {type(objective).__name__} is not."
            )

    def divisor(
        self,
        objective: Objective,
        batch: Batch | None = None,
        predictor: Predictor | None = None,
        erm_norm: float | None = None,
    ) -> float:
        """What to divide the losses by; without an ``erm_norm`` this is the first step."""
        self.check(objective)
        if self.name == PENALTY_WEIGHT:
            return max(1.0, float(objective.penalty_weight))  # type: ignore[arg-type]
        if self.name != GRADIENT_RATIO:
            return 1.0
        if batch is None or predictor is None:
            raise SettingError(f"The loss scaling {self.name!r} needs a batch and the predictor.")
        measured = copy.deepcopy(objective)  # GroupDRO's weights and memories must not move
        new = _gradient_norm_at(measured, batch, predictor)
        old = erm_gradient_norm(batch, predictor) if erm_norm is None else erm_norm
        return new / old if new > 0 and old > 0 else 1.0


def erm_gradient_norm(batch: Batch, predictor: Predictor) -> float:
    """‖∇ mean risk‖ on a batch, over the domains of all processes where there are several."""
    if several_processes():
        return _gradient_norm_at(ERM(), batch, predictor)
    return _gradient_norm_at(lambda losses, *_: mean_risk(losses, batch), batch, predictor)


def _gradient_norm_at(loss: Callable[..., Tensor], batch: Batch, predictor: Predictor) -> float:
    """‖∇ loss(losses, …)‖ as the step that follows will see it: with the same dropout masks.

    The predictor is copied, so that batch norm's statistics do not move twice. With several
    processes it is the norm of the gradients' average, as they are trained with.
    """
    device = next(predictor.parameters()).device
    copied = copy.deepcopy(predictor)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        losses = batch.weighted(copied.losses(copied(batch.x, batch.domains), batch.y))
    value = loss(losses, batch.domains, batch.num_domains)
    parameters = [p for p in copied.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(value, parameters, materialize_grads=True)
    if several_processes():
        flat = torch.cat([g.reshape(-1).double() for g in gradients])
        dist.all_reduce(flat)
        return float(flat.norm()) / dist.get_world_size()
    return float(torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt())
