"""The evaluation of a module of torch on a loader of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eqrm.errors import DomainDataError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.accumulator import RiskAccumulator


@torch.no_grad()
def of_module(
    model: nn.Module,
    loader: Iterable[Any],
    loss: Callable[[Tensor, Tensor], Tensor] | None,
    name: str,
) -> Evaluation:
    """``eqrm.evaluate_model`` of a module."""
    gathered, training = RiskAccumulator(across_processes=False), model.training
    kinds = set()
    model.eval()
    try:
        for batch in loader:
            if not isinstance(batch, (tuple, list)) or len(batch) != 3:
                raise DomainDataError("The loader must give batches of three: x, y and domain.")
            x, y, domain = batch
            device = next((p.device for p in model.parameters()), torch.device("cpu"))
            outputs = model(x.to(device) if isinstance(x, Tensor) else x)
            target = torch.as_tensor(y).to(outputs.device)
            losses, kind = (loss(outputs, target), "loss") if loss else _losses(outputs, target)
            kinds.add(kind)
            if losses.shape != (len(target),):
                raise DomainDataError(
                    f"The loss must give one number per example, got the shape "
                    f"{tuple(losses.shape)} for {len(target)} examples (reduction='none')."
                )
            gathered.update(losses, domain)
    finally:
        model.train(training)
    return Evaluation({name: gathered.compute()}, kinds.pop() if len(kinds) == 1 else "loss", None)


def _losses(outputs: Tensor, target: Tensor) -> tuple[Tensor, str]:
    """The log-loss of logits (n, K), (n, 1) or (n,), or the squared error of numbers."""
    flat = outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs
    if target.is_floating_point():
        squares = (flat - target.reshape(flat.shape)).square()
        return squares.reshape(len(squares), -1).mean(dim=1), "squared"
    if flat.ndim == 1:
        return functional.softplus((1.0 - 2.0 * target.to(flat.dtype)) * flat), "log-loss"
    return functional.cross_entropy(flat, target.long(), reduction="none"), "log-loss"
