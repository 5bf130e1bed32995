"""Small data and networks to train on in tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from eqrm.data import DomainBatches, DomainData
from eqrm.predictors import MLP
from eqrm.predictors.small_networks import LinearPredictor
from eqrm.training import Phase, Trainer, TrainingSettings


def regression(num_domains: int = 5, examples: int = 12, seed: int = 0) -> DomainData:
    """y = x₀ + s_e·x₁ + noise, with a slope s_e of the domain's own."""
    generator = torch.Generator().manual_seed(seed)
    n = num_domains * examples
    x = torch.randn(n, 3, generator=generator)
    domains = torch.arange(n) % num_domains
    slopes = torch.linspace(0.0, 2.0, num_domains)[domains]
    y = x[:, 0] + slopes * x[:, 1] + 0.1 * torch.randn(n, generator=generator)
    return DomainData(x, y, domains, tuple(f"d{i}" for i in range(num_domains)))


def classification(num_domains: int = 4, examples: int = 16, seed: int = 0) -> DomainData:
    """Three classes by the angle of two inputs, turned a little in every domain."""
    generator = torch.Generator().manual_seed(seed)
    n = num_domains * examples
    x = torch.randn(n, 4, generator=generator)
    domains = torch.arange(n) % num_domains
    angle = torch.atan2(x[:, 0], x[:, 1]) + 0.1 * domains
    y = ((angle + torch.pi) / (2 * torch.pi) * 3).floor().long() % 3
    return DomainData(x, y, domains, tuple(f"d{i}" for i in range(num_domains)))


def linear(seed: int = 0) -> LinearPredictor:
    torch.manual_seed(seed)
    return LinearPredictor(3, 1, loss="squared")


def network(seed: int = 0, dropout: float = 0.0) -> MLP:
    torch.manual_seed(seed)
    return MLP(3, 1, width=8, depth=2, dropout=dropout, loss="squared")


def settings(**changes: object) -> TrainingSettings:
    """On the CPU, without TensorBoard."""
    return TrainingSettings(**{"device": "cpu", "tensorboard": False, **changes})  # type: ignore[arg-type]


def trainer(predictor=None, data=None, phases=None, batches=None, **changes) -> Trainer:  # type: ignore[no-untyped-def]
    """A trainer of the regression world, ERM and then EQRM."""
    data = data or regression()
    phases = phases or [Phase("erm", 6, 0.01), Phase("eqrm", 8, 0.005, schedule="cosine")]
    batches = batches or DomainBatches(data, 3, 4, seed=1)
    changes.setdefault("settings", settings())
    return Trainer(predictor or network(), data, phases, batches, **changes)


class Killed(BaseException):
    """Stands for a process that is gone."""


def before_steps(machine: Trainer, act: Callable[[], object]) -> None:
    """Have something done before every step that a trainer takes."""
    take = machine._take_step

    def taken(*arguments: Any) -> Any:
        act()
        return take(*arguments)

    machine._take_step = taken  # type: ignore[method-assign]


def kill_after(machine: Trainer, step: int) -> None:
    """Run until ``step`` steps are taken, and stop without a chance to save."""

    def kill() -> None:
        if machine.state.step == step:
            raise Killed

    before_steps(machine, kill)
    with suppress(Killed):
        machine.fit()
    assert machine.state.step == step


def weights(predictor: torch.nn.Module) -> Tensor:
    return torch.nn.utils.parameters_to_vector(predictor.parameters()).detach().clone()
