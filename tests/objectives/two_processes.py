"""Training in two gloo processes, and the same training in one.

Everything runs in one pair of processes, because starting them takes seconds. What they find
is written to files, which the tests compare with one process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from eqrm.errors import DomainDataError
from eqrm.objectives import EQRM, ERM, GroupDRO, RiskMemory, RiskObjective, Superquantile, VREx
from processes import end_together, meet, run_in_processes

NUM_DOMAINS, STEPS = 6, 20
DTYPES = {"float32": torch.float32, "float64": torch.float64}

OBJECTIVES: dict[str, Callable[[], RiskObjective]] = {
    "erm": ERM,
    "eqrm-kde": lambda: EQRM(0.9),
    "eqrm-gaussian": lambda: EQRM(0.9, "gaussian"),
    "eqrm-empirical": lambda: EQRM(0.7, "empirical"),
    "eqrm-silverman": lambda: EQRM(0.9, bandwidth="silverman"),
    "eqrm-weights": lambda: EQRM(0.9, weights=torch.arange(1.0, NUM_DOMAINS + 1)),
    "eqrm-memory": lambda: EQRM(0.9, memory=RiskMemory(NUM_DOMAINS, half_life=5.0)),
    "eqrm-denoise": lambda: EQRM(0.9, memory=RiskMemory(NUM_DOMAINS, averaging=0.5, denoise=True)),
    "superquantile": lambda: Superquantile(0.6),
    "superquantile-kde": lambda: Superquantile(0.6, "kde"),
    "groupdro": lambda: GroupDRO(0.1),
    "vrex": lambda: VREx(1.0),
}


@dataclass(frozen=True)
class Batch:
    x: Tensor
    y: Tensor
    domains: Tensor

    def __getitem__(self, rows: Tensor) -> Batch:
        return Batch(self.x[rows], self.y[rows], self.domains[rows])


LAYOUTS: dict[str, Callable[[Batch], Tensor]] = {
    "every domain split over both": lambda b: torch.arange(len(b.y)) % 2 == 0,
    "two domains here, four there": lambda b: b.domains < 2,
    "one example here, the rest there": lambda b: torch.arange(len(b.y)) == 0,
    "none here, all there": lambda b: torch.zeros(len(b.y), dtype=torch.bool),
}
"""Which rows of a batch the first process gets; the second gets the rest."""


def batches(dtype: torch.dtype, steps: int = STEPS) -> list[Batch]:
    """Batches of five of the six domains, of unequal sizes, one with a single example."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for step in range(steps):
        present = [e for e in range(NUM_DOMAINS) if e != step % NUM_DOMAINS]
        sizes = torch.tensor([1, 3, 4, 6, 7])
        domains = torch.repeat_interleave(torch.tensor(present), sizes)
        domains = domains[torch.randperm(len(domains), generator=generator)]
        x = torch.randn(len(domains), 3, generator=generator, dtype=torch.float64)
        noise = torch.randn(len(domains), generator=generator, dtype=torch.float64)
        y = x[:, 0] + 0.3 * domains * x[:, 1] + 0.3 * noise
        found.append(Batch(x.to(dtype), y.to(dtype), domains))
    return found


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)).to(dtype)


def losses_of(model: nn.Module, batch: Batch) -> Tensor:
    return (model(batch.x) - batch.y) ** 2


Step = Callable[[nn.Module, RiskObjective, Batch], float]


def plain_step(model: nn.Module, objective: RiskObjective, batch: Batch) -> float:
    loss = objective(losses_of(model, batch), batch.domains, num_domains=NUM_DOMAINS)
    loss.backward()
    return loss.item()


def accumulating_step(model: nn.Module, objective: RiskObjective, batch: Batch) -> float:
    """Two micro-batches, in two passes (docs/objectives.md)."""
    parts = [batch[torch.arange(len(batch.y)) % 2 == part] for part in range(2)]
    with torch.no_grad():
        losses = torch.cat([losses_of(model, part) for part in parts])
    losses.requires_grad_()
    domains = torch.cat([part.domains for part in parts])
    loss = objective(losses, domains, num_domains=NUM_DOMAINS)
    (slopes,) = torch.autograd.grad(loss, losses)
    weights = slopes.split([len(part.y) for part in parts])
    for i, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        waiting = isinstance(model, DistributedDataParallel) and i == 0
        with model.no_sync() if waiting else nullcontext():
            (weight * losses_of(model, part)).sum().backward()
    return loss.item()


def train(
    objective: RiskObjective,
    model: nn.Module,
    data: list[Batch],
    step: Step = plain_step,
) -> dict[str, Any]:
    """SGD with momentum; the parameters it ends with and the loss of every step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for batch in data:
        optimizer.zero_grad()
        losses.append(step(model, objective, batch))
        optimizer.step()
    parameters = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    return {"parameters": parameters, "losses": losses, "state": objective.state_dict()}


def ready(name: str) -> RiskObjective:
    made = OBJECTIVES[name]()
    made.prepare(network(torch.float32), NUM_DOMAINS)  # type: ignore[arg-type]
    return made


QUICK = {
    "erm": "none here, all there",
    "eqrm-kde": "two domains here, four there",
    "eqrm-denoise": "every domain split over both",
    "groupdro": "one example here, the rest there",
}
"""An objective without state, one with exact gradients, two that keep state; every layout."""


def cases(full: bool) -> list[tuple[str, str, str]]:
    """(objective, layout, dtype); float32 adds nothing but rounding, so two layouts will do."""
    if not full:
        return [(name, layout, "float64") for name, layout in QUICK.items()]
    return [
        (name, layout, dtype)
        for dtype in DTYPES
        for layout in (LAYOUTS if dtype == "float64" else list(LAYOUTS)[:2])
        for name in OBJECTIVES
    ]


def own_part(layout: str, batch: Batch, rank: int) -> Batch:
    first = LAYOUTS[layout](batch)
    return batch[first if rank == 0 else ~first]


def run_everything(rank: int, folder: str, full: bool) -> None:
    """What one of the two processes does."""
    meet(rank, folder)
    found: dict[Any, Any] = {}
    for name, layout, dtype in cases(full):
        data = [own_part(layout, batch, rank) for batch in batches(DTYPES[dtype])]
        model = DistributedDataParallel(network(DTYPES[dtype]))
        found[name, layout, dtype] = train(ready(name), model, data)
    data = [own_part(next(iter(LAYOUTS)), batch, rank) for batch in batches(torch.float64)]
    for case in (accumulated, *([compiled] if full else [])):
        found[case.__name__] = case(data)
    found["errors"] = errors(data[0], rank)
    torch.save(found, Path(folder) / f"rank-{rank}.pt")
    end_together()


def accumulated(data: list[Batch]) -> dict[str, Any]:
    model = DistributedDataParallel(network(torch.float64))
    return train(ready("eqrm-kde"), model, data, accumulating_step)


def compiled(data: list[Batch]) -> dict[str, Any]:
    model = DistributedDataParallel(network(torch.float64))
    objective = torch.compile(ready("eqrm-kde"), fullgraph=True, backend="aot_eager")
    return train(objective, model, data)


def errors(batch: Batch, rank: int) -> dict[str, str]:
    """Each process must raise, or the other would wait for ever."""
    losses = losses_of(network(torch.float64), batch).detach()
    spoiled = losses.clone()
    if rank == 0:
        spoiled[batch.domains == 3] = torch.nan
    messages = {}
    for name, action in {
        "without num_domains": lambda: ready("eqrm-kde")(losses, batch.domains),
        "NaN in one process": lambda: ready("eqrm-kde")(spoiled, batch.domains, NUM_DOMAINS),
        "NaN for ERM": lambda: ready("erm")(spoiled, batch.domains, NUM_DOMAINS),
    }.items():
        try:
            action()
        except DomainDataError as error:
            messages[name] = str(error)
    return messages


def run_in_two_processes(folder: Path, full: bool) -> list[dict[Any, Any]]:
    """What each of the two processes found."""
    run_in_processes(run_everything, str(folder), full)
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(2)]
