"""What tests of many runs share: three small domains, networks, a run by itself, distances."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from studies.many_runs.train_many import Run

from eqrm.data import DomainBatches, DomainData
from eqrm.predictors import MLP
from eqrm.training import Trainer, TrainingSettings
from eqrm.training.state import seed_everything


def world(seed: int = 0, counts: tuple[int, ...] = (60, 45, 52)) -> DomainData:
    generator = torch.Generator().manual_seed(seed)
    domains = torch.cat([torch.full((n,), e) for e, n in enumerate(counts)])
    x = torch.randn(len(domains), 6, generator=generator)
    shift = 0.5 * domains * torch.randn(len(domains), generator=generator)
    y = (x[:, 0] + shift > 0).long()
    order = torch.randperm(len(domains), generator=generator)
    return DomainData(x[order], y[order], domains[order], tuple("abc"))


def small(dropout: float = 0.0) -> Callable[[], MLP]:
    def make() -> MLP:
        return MLP(6, 1, width=10, depth=2, dropout=dropout, loss="binary-cross-entropy")

    return make


def difference(one: MLP, other: MLP) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a.double() - b.double()).abs().max().detach()) for a, b in pairs)


def alone(run: Run, data: DomainData, k: int | None, network: Callable[[], MLP]) -> MLP:
    """The run as the trainer makes it."""
    seed_everything(run.seed)
    settings = TrainingSettings(seed=run.seed, device="cpu", tensorboard=False)
    batches = DomainBatches(data, None, k, seed=run.seed)
    fitted = Trainer(network().double(), data, run.phases, batches, settings=settings).fit()
    assert isinstance(fitted.predictor, MLP)
    return fitted.predictor


def in_double(data: DomainData) -> DomainData:
    return dataclasses.replace(data, x=data.x.double())
