"""Small networks trained by gradients: all rows in each step, or mini-batches of domains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import Groups
from eqrm.linear.solving.risk_functions import Array
from eqrm.objectives.base import RiskObjective
from eqrm.objectives.risk_based import ERM
from eqrm.objectives.risk_memory import RiskMemory

Losses = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of a trained network as arrays: weights (out, in) and biases (out,), ReLU between.

    >>> Network((np.array([[2.0], [-1.0]]), np.array([[1.0, 1.0]])), (np.zeros(2), np.ones(1)))(
    ...     np.array([[3.0], [-3.0]])
    ... )
    array([[7.],
           [4.]])
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def __call__(self, rows: Array) -> Array:
        """Outputs (n, C) of standardised rows (n, d)."""
        values = rows
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight.T + bias
            if place + 1 < len(self.weights):
                values = np.maximum(values, 0.0)
        return values


@dataclass(frozen=True)
class Schedule:
    """How a network is trained: ``erm_steps`` for the mean risk, then ``steps`` for the goal."""

    hidden: tuple[int, ...]
    l2: float
    learning_rate: float
    erm_steps: int
    steps: int
    domains_per_batch: int | None
    rows_per_domain: int | None
    intercept: bool


@dataclass(frozen=True, eq=False)
class Examples:
    """Standardised rows (n, d), targets (n,), domains and the factor of each loss (n,).

    The mean of factor × loss over a domain is its weighted risk.
    """

    rows: Tensor
    targets: Tensor
    groups: Groups
    factors: Tensor

    @classmethod
    def of(
        cls, rows: Array, targets: NDArray[Any], groups: Groups, sample_weight: Array | None
    ) -> Examples:
        """From arrays; a factor is 1 without weights, and w_i·n_e/Σw with them."""
        factors = groups.row_weights(groups.counts.astype(np.float64), sample_weight)
        return cls(
            torch.from_numpy(rows), torch.from_numpy(targets), groups, torch.from_numpy(factors)
        )


def train(
    examples: Examples,
    outputs: int,
    losses: Losses,
    goal: Goal,
    schedule: Schedule,
    random: np.random.RandomState,
    start: Network | None = None,
) -> Network:
    """Adam on the mean risk first, then a fresh Adam with cosine decay on the goal.

    Mini-batches hold some of the domains; the quantile is still over all of them, by a memory of
    each domain's latest risk. Everything random comes from ``random``. From a ``start``, what was
    trained before is the first phase.
    """
    network = _new(examples.rows.shape[1], outputs, schedule, random)
    if start is not None:
        _take_over(network, start)
    memory = None
    if schedule.domains_per_batch is not None and goal.level is not None:
        # Some of a domain's rows measure its risk with noise, which averaging over visits removes.
        averaging = 1.0 if schedule.rows_per_domain is None else 0.3
        memory = RiskMemory(len(examples.groups), averaging=averaging)
    phases = [(ERM(), 0 if start else schedule.erm_steps), (goal.objective(memory), schedule.steps)]
    for objective, steps in phases:
        _run_phase(network, examples, losses, objective, steps, schedule, random)
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    return Network(
        tuple(layer.weight.detach().numpy().copy() for layer in layers),
        tuple(
            np.zeros(layer.out_features) if layer.bias is None else layer.bias.detach().numpy()
            for layer in layers
        ),
    )


def _new(
    inputs: int, outputs: int, schedule: Schedule, random: np.random.RandomState
) -> nn.Sequential:
    generator = torch.Generator().manual_seed(int(random.randint(2**31 - 1)))
    widths = [inputs, *schedule.hidden, outputs]
    layers: list[nn.Module] = []
    for place, (width, after) in enumerate(pairwise(widths)):
        last = place == len(widths) - 2
        # Without nn.Linear's own initial weights, which would be drawn from torch's global state.
        layer = nn.utils.skip_init(
            nn.Linear, width, after, bias=schedule.intercept or not last, dtype=torch.float64
        )
        with torch.no_grad():
            reach = (6.0 / width) ** 0.5 if not last else 0.1 * (1.0 / width) ** 0.5
            layer.weight.uniform_(-reach, reach, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
        layers += [layer] if last else [layer, nn.ReLU()]
    return nn.Sequential(*layers)


def _take_over(network: nn.Sequential, start: Network) -> None:
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, start.weights, start.biases, strict=True):
            layer.weight.copy_(torch.from_numpy(weight))
            if layer.bias is not None:
                layer.bias.copy_(torch.from_numpy(bias))


def _run_phase(
    network: nn.Sequential,
    examples: Examples,
    losses: Losses,
    objective: RiskObjective,
    steps: int,
    schedule: Schedule,
    random: np.random.RandomState,
) -> None:
    if steps == 0:
        return
    parameters = list(network.parameters())
    penalised = [p for p in parameters if p.ndim == 2]
    optimizer = torch.optim.Adam(parameters, lr=schedule.learning_rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    batches = _batches(examples.groups, schedule, random)
    ids = torch.from_numpy(examples.groups.ids)
    for _ in range(steps):
        rows = next(batches)
        x, y, factor, domain = (
            part if rows is None else part[rows]
            for part in (examples.rows, examples.targets, examples.factors, ids)
        )
        own = factor * losses(network(x), y)
        value = objective(own, domain, len(examples.groups))
        shrinkage = schedule.l2 * torch.stack([p.square().sum() for p in penalised]).sum()
        optimizer.zero_grad()
        (value + shrinkage).backward()
        optimizer.step()
        decay.step()


def _batches(
    groups: Groups, schedule: Schedule, random: np.random.RandomState
) -> Iterator[Tensor | None]:
    """Rows of each step, without end; None is all of them."""
    if schedule.domains_per_batch is None or schedule.domains_per_batch >= len(groups):
        while True:
            yield None
    order = np.argsort(groups.ids, kind="stable")
    ends = np.concatenate([[0], np.cumsum(groups.counts)])
    waiting: list[int] = []
    while True:
        if len(waiting) < schedule.domains_per_batch:
            fresh = [e for e in random.permutation(len(groups)).tolist() if e not in set(waiting)]
            waiting = waiting + fresh
        chosen, waiting = (
            waiting[: schedule.domains_per_batch],
            waiting[schedule.domains_per_batch :],
        )
        yield torch.from_numpy(_some_rows(order, ends, chosen, schedule.rows_per_domain, random))


def _some_rows(
    order: NDArray[np.int64],
    ends: NDArray[np.int64],
    domains: Sequence[int],
    most: int | None,
    random: np.random.RandomState,
) -> NDArray[np.int64]:
    parts = []
    for e in domains:
        rows = order[ends[e] : ends[e + 1]]
        if most is not None and len(rows) > most:
            rows = random.choice(rows, most, replace=False)
        parts.append(rows)
    return np.concatenate(parts)
