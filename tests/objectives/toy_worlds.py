"""Small worlds for tests: a few domains that share a signal and differ in a shift."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eqrm.objectives import Batch
from eqrm.objectives.batch import mean_risk
from eqrm.predictors import MLP, Predictor

SIZES = {1: (7,), 2: (9, 1), 5: (6, 1, 3, 8, 2)}
"""Examples per domain, by number of domains: unequal, and where possible one alone."""

INPUTS = 3


def toy_batch(
    task: str = "classes",
    sizes: tuple[int, ...] = SIZES[5],
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Batch:
    """y depends on x₀; x₁ tells the domain. Rows come in random order."""
    generator = torch.Generator().manual_seed(seed)
    domains = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    domains = domains[torch.randperm(len(domains), generator=generator)]
    x = torch.randn(len(domains), INPUTS, generator=generator, dtype=dtype)
    x[:, 1] += domains
    return Batch(x, targets(task, x), domains, len(sizes))


def targets(task: str, x: Tensor) -> Tensor:
    signal = x.flatten(1)[:, 0]
    if task == "classes":
        return (signal > -0.5).long() + (signal > 0.5).long()
    if task == "binary":
        return (signal > 0).to(x.dtype)
    return torch.stack([signal, -signal], dim=1)


def predictor_for(task: str, dtype: torch.dtype = torch.float32) -> Predictor:
    outputs, loss = {
        "classes": (3, "cross-entropy"),
        "binary": (1, "binary-cross-entropy"),
        "regression": (2, "squared"),
    }[task]
    return MLP(INPUTS, outputs, width=8, depth=1, loss=loss).to(dtype)


def image_batch(seed: int = 0) -> Batch:
    """Three domains of 2-channel images, 6 × 6."""
    batch = toy_batch(sizes=(4, 1, 3), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(batch.y), 2, 6, 6, generator=generator)
    return Batch(x, targets("classes", x), batch.domains, 3)


def image_predictor() -> Predictor:
    featurizer = nn.Sequential(
        nn.Conv2d(2, 4, kernel_size=3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return Predictor(featurizer, nn.Linear(4, 3))


def risk_of(predictor: Predictor, batch: Batch) -> float:
    """The mean risk, with each domain of the batch adapted to from its own examples."""
    with torch.no_grad():
        losses = predictor.losses(predictor(batch.x, batch.domains), batch.y)
        return float(mean_risk(losses, batch))
