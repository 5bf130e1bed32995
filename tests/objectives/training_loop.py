"""The smallest honest training loop: one Adam per optimizer name, each update applied at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from eqrm.objectives import Batch, Objective, Update
from eqrm.predictors import Predictor
from eqrm.training import OptimizerChoice

Optimizers = Mapping[str, torch.optim.Optimizer]


def optimizers_for(objective: Objective, predictor: Predictor, learning_rate: float) -> Optimizers:
    """Adam for the predictor, and one for each of the objective's own networks."""
    optimizers: dict[str, torch.optim.Optimizer]
    optimizers = {"predictor": torch.optim.Adam(predictor.parameters(), lr=learning_rate)}
    for name, settings in objective.optimizer_settings(predictor).items():
        choice = settings.choice or OptimizerChoice()
        rate = settings.learning_rate or learning_rate
        optimizers[name] = choice.make(settings.parameters, rate)
    return optimizers


def apply(update: Update, optimizers: Optimizers) -> None:
    """Differentiate in the update's own parameters and nothing else, then take a step."""
    optimizer = optimizers[update.optimizer]
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert all(id(p) in owned for p in update.parameters)
    optimizer.zero_grad(set_to_none=True)
    gradients = torch.autograd.grad(update.loss, update.parameters, allow_unused=True)
    for parameter, gradient in zip(update.parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()


def train(
    objective: Objective,
    predictor: Predictor,
    batches: Iterable[Batch],
    learning_rate: float = 1e-2,
) -> list[float]:
    """Train a prepared predictor; returns the loss of every update, in order."""
    optimizers = optimizers_for(objective, predictor, learning_rate)
    losses = []
    for step, batch in enumerate(batches):
        for update in objective.updates(batch, predictor, step):
            apply(update, optimizers)
            losses.append(float(update.loss.detach()))
    return losses


def only_update(objective: Objective, batch: Batch, predictor: Predictor) -> Update:
    """The update of an objective that makes one per step."""
    (update,) = objective.updates(batch, predictor, 0)
    return update


def gradient_of(update: Update) -> torch.Tensor:
    """The update's gradient in all its parameters, as one vector."""
    gradients = torch.autograd.grad(
        update.loss, update.parameters, retain_graph=True, materialize_grads=True
    )
    return nn.utils.parameters_to_vector(list(gradients))
