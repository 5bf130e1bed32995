"""The published scalings of the loss, by name. Training applies them; objectives never do.

The code beside the paper rescales losses where the paper says nothing of it. A constant factor
does not move a minimum, but it changes the step of a given learning rate at the moment an
objective takes over, so a reproduction needs it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from eqrm.errors import SettingError, did_you_mean
from eqrm.objectives.across_processes import several_processes
from eqrm.objectives.base import Batch, Objective, RiskObjective, mean_risk
from eqrm.objectives.risk_based import ERM
from eqrm.predictors.base import Predictor

LOSS_SCALINGS = {
    "none": "the loss as it is",
    "penalty-weight": "divided by the penalty weight when that exceeds 1",
    "gradient-norm-ratio": "divided once by ‖∇objective‖/‖∇ERM‖, measured when its phase begins",
}


@dataclass(frozen=True)
class LossScaling:
    """How a phase of training scales its losses.

    A trainer asks for the divisor once, when the phase begins, and divides the loss of every
    update by it.

    >>> from eqrm.objectives.penalties import IRM
    >>> LossScaling("penalty-weight").divisor(IRM(penalty_weight=1000.0))
    1000.0
    >>> LossScaling("penalty-weight").divisor(IRM(penalty_weight=0.5))
    1.0
    """

    name: str = "none"

    def __post_init__(self) -> None:
        if self.name not in LOSS_SCALINGS:
            raise SettingError(
                f"There is no loss scaling {self.name!r}. {did_you_mean(self.name, LOSS_SCALINGS)}"
            )

    def divisor(
        self,
        objective: Objective,
        batch: Batch | None = None,
        predictor: Predictor | None = None,
    ) -> float:
        """What to divide the losses by. The gradient ratio needs a batch and the predictor."""
        if self.name == "penalty-weight":
            return max(1.0, _penalty_weight(objective))
        if self.name == "gradient-norm-ratio":
            return _gradient_norm_ratio(objective, batch, predictor)
        return 1.0


def _penalty_weight(objective: Objective) -> float:
    weight = getattr(objective, "penalty_weight", None)
    if weight is None:
        raise SettingError(
            f"The loss scaling 'penalty-weight' needs an objective with a penalty_weight; "
            f"{type(objective).__name__} has none."
        )
    return float(weight)


def _gradient_norm_ratio(
    objective: Objective, batch: Batch | None, predictor: Predictor | None
) -> float:
    if batch is None or predictor is None or not isinstance(objective, RiskObjective):
        raise SettingError(
            "The loss scaling 'gradient-norm-ratio' compares a risk objective (EQRM) with ERM on "
            f"a batch: it needs batch and predictor, and cannot scale {type(objective).__name__}"
            " without them."
        )
    losses = predictor.losses(predictor(batch.x, batch.domains), batch.y)
    measured = copy.deepcopy(objective)  # measuring must not move GroupDRO's weights or a memory
    of_objective = measured(losses, batch.domains, batch.num_domains)
    parameters = tuple(p for p in predictor.parameters() if p.requires_grad)
    new = gradient_norm(of_objective, parameters)
    old = gradient_norm(_of_erm(losses, batch), parameters)
    return new / old if new > 0 and old > 0 else 1.0


def _of_erm(losses: Tensor, batch: Batch) -> Tensor:
    """The mean risk, over the domains of all processes where there are several."""
    if several_processes():
        return ERM()(losses, batch.domains, batch.num_domains)
    return mean_risk(losses, batch)


def gradient_norm(loss: Tensor, parameters: Sequence[nn.Parameter]) -> float:
    """‖∇loss‖ over all parameters together; keeps the graph for a second loss.

    With several processes it is the norm of the gradients' average, as they are trained with.

    >>> weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> gradient_norm(weight.square().sum() / 2, [weight])
    5.0
    """
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
    if several_processes():
        flat = torch.cat([g.reshape(-1).double() for g in gradients])
        dist.all_reduce(flat)
        return float(flat.norm()) / dist.get_world_size()
    return float(torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt())
