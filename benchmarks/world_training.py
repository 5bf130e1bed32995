"""Training in the simulated worlds: in full, and by mini-batches with or without a memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from worlds import World

from eqrm import EQRM, KDE
from eqrm.objectives import RiskMemory

LEVEL = 0.9
BATCH = 16
LEARNING_RATE = 0.01
"""Learning rate of Adam (β = .9, .999), which falls linearly to 0, for all runs by mini-batches."""

LOOKS_PER_EPOCH = 5


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how many examples of each domain a visit sees (None: all)."""

    epochs: int
    visible: int | None = None
    seed: int = 0


@dataclass
class Look:
    """Relative errors of the .9-quantile over all training domains, at the same parameters.

    ``memory`` is that of the memory; ``batches`` (number,) are those of batches on their own.
    """

    step: int
    memory: float
    batches: Tensor


@dataclass
class Trained:
    """What a run learned, what was seen on the way, and the memory it ended with."""

    beta: Tensor
    looks: list[Look] = field(default_factory=list)
    memory: RiskMemory | None = None


def minimised(objective: Callable[[Tensor], Tensor], start: Tensor, steps: int = 80) -> Tensor:
    """The minimiser by L-BFGS with line search: for objectives of all examples at once."""
    beta = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [beta],
        max_iter=steps,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-9,
        tolerance_change=1e-13,
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = objective(beta)
        loss.backward()
        return loss

    optimizer.step(closure)
    return beta.detach()


def measured_risks(world: World, beta: Tensor) -> Tensor:
    """The mean loss on each training domain, (domains,)."""
    return world.losses(world.examples, beta).mean(dim=1)


def kde_quantile(risks: Tensor) -> Tensor:
    """The .9-quantile of the KDE of the risks (..., m)."""
    return KDE(risks).quantile(LEVEL)


def erm(world: World) -> Tensor:
    """The minimiser of the mean risk over the training domains; where all others start."""
    start = torch.zeros(len(world.coefficients), dtype=torch.float64)
    return minimised(lambda beta: measured_risks(world, beta).mean(), start)


def full_batch(world: World, start: Tensor) -> Tensor:
    """The minimiser of the .9-quantile over the training domains."""
    return minimised(lambda beta: kde_quantile(measured_risks(world, beta)), start)


def with_true_risks(world: World, start: Tensor) -> Tensor:
    """The minimiser of the .9-quantile of the held-out domains themselves: what is possible.

    L-BFGS stops short at the kink where all risks are equal, so the best predictor there is
    found by itself, and the better of the two is taken.
    """

    def objective(beta: Tensor) -> Tensor:
        return kde_quantile(world.true_risks(beta))

    mask = torch.tensor(world.invariant, dtype=torch.float64)
    invariant = minimised(lambda beta: objective(mask * beta), mask * start, steps=15) * mask
    free = minimised(objective, start, steps=15)
    return min(free, invariant, key=lambda beta: float(objective(beta)))


def true_quantile(world: World, beta: Tensor) -> float:
    """The .9-quantile of the true risks over the held-out domains."""
    return float(torch.quantile(world.true_risks(beta), LEVEL))


def visit(world: World, domains: Tensor, visible: int | None, draw: torch.Generator) -> Tensor:
    """The examples (k, visible, columns) of a batch of domains, drawn without replacement."""
    examples = world.examples[domains]
    number = examples.shape[1]
    if visible is None or visible == number:
        return examples
    order = torch.rand((len(domains), number), generator=draw).argsort(dim=1)[:, :visible]
    return examples.gather(1, order[..., None].expand(-1, -1, examples.shape[2]))


def loss_of_visit(world: World, objective: EQRM, beta: Tensor, ids: Tensor, seen: Tensor) -> Tensor:
    """The objective as a user calls it: one loss and one domain per example."""
    losses = world.losses(seen, beta)
    number = losses.shape[1]
    if objective.memory is None:
        within = torch.arange(len(ids)).repeat_interleave(number)
        return objective(losses.flatten(), within, len(ids))
    return objective(losses.flatten(), ids.repeat_interleave(number))


def train(
    world: World,
    start: Tensor,
    memory: RiskMemory | None,
    schedule: Schedule,
    watch: bool = False,
) -> Trained:
    """EQRM at .9 by mini-batches of 16 domains, each epoch without replacement."""
    objective = EQRM(LEVEL, memory=memory)
    beta = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([beta], lr=LEARNING_RATE, fused=True)
    draw = torch.Generator().manual_seed(schedule.seed)
    domains = len(world.examples)
    per_epoch = domains // BATCH
    steps = schedule.epochs * per_epoch
    trained = Trained(beta.detach(), memory=memory)
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(domains, generator=draw)[: per_epoch * BATCH].view(-1, BATCH)
        ids = order[step % per_epoch]
        seen = visit(world, ids, schedule.visible, draw)
        loss = loss_of_visit(world, objective, beta, ids, seen)
        if watch and step >= per_epoch and step % max(1, per_epoch // LOOKS_PER_EPOCH) == 0:
            trained.looks.append(look(world, beta.detach(), float(loss.detach()), step, order))
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1.0 - step / steps)
        optimizer.step()
    return trained


def look(world: World, beta: Tensor, estimate: float, step: int, batches: Tensor) -> Look:
    """Compare an estimate, and batches (number, 16) on their own, with all domains."""
    risks = measured_risks(world, beta)
    full = kde_quantile(risks)
    alone = kde_quantile(risks[batches])
    return Look(step, estimate / float(full) - 1.0, alone / full - 1.0)


def gradient_error(world: World, beta: Tensor, seed: int) -> float:
    """|mean gradient over one epoch − full gradient| / |full gradient|, at fixed parameters."""
    point = beta.clone().requires_grad_()
    (full,) = torch.autograd.grad(kde_quantile(measured_risks(world, point)), point)
    domains = len(world.examples)
    objective = EQRM(LEVEL, memory=RiskMemory(domains))
    with torch.no_grad():  # every domain has been seen once
        loss_of_visit(world, objective, point, torch.arange(domains), world.examples)
    order = torch.randperm(domains, generator=torch.Generator().manual_seed(seed))
    total = torch.zeros_like(full)
    for ids in order.view(-1, BATCH):
        loss = loss_of_visit(world, objective, point, ids, world.examples[ids])
        total += torch.autograd.grad(loss, point)[0]
    return float((total / (domains // BATCH) - full).norm() / full.norm())
