"""Training steps on a CUDA device: EQRM and other objectives against the plain mean of the losses.

    PYTHONPATH=src python3 benchmarks/cuda_steps.py

A step is forward, loss, backward and Adam's update, in eager mode and captured in a CUDA graph.
Competitors take turns on the same batch; medians are compared. Also counts the kernels that an
objective launches, and measures what a risk memory of 45,000 domains adds to a step. Prints
Markdown. ``--device cpu`` tries the script without CUDA.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from tables import captured, gpu_device, markdown, measured_on
from timing import Budget, Timing, interleaved
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import eqrm
from eqrm.objectives import ERM, GroupDRO, RiskMemory, VREx

Objective = Callable[[Tensor, Tensor, int], Tensor]
REMEMBERED = 45_000


class Setting(NamedTuple):
    """A network and a batch."""

    name: str
    widths: tuple[int, ...]
    domains: int
    examples: int


SETTINGS = (
    Setting("MLP 392-390-390-1, 2 x 25,000", (392, 390, 390, 1), 2, 25_000),
    Setting("MLP 392-390-390-1, 2 x 2,500", (392, 390, 390, 1), 2, 2_500),
    Setting("MLP 50-128-128-1, 1000 x 8", (50, 128, 128, 1), 1000, 8),
    Setting("MLP 50-128-128-1, 4 x 32", (50, 128, 128, 1), 4, 32),
)


def plain_mean(losses: Tensor, domains: Tensor, num_domains: int) -> Tensor:
    """The least that any training can do."""
    return losses.mean()


def objectives(device: torch.device) -> dict[str, Objective]:
    """What is compared, by name."""
    dro = GroupDRO()
    return {
        "plain mean": plain_mean,
        "ERM": ERM().to(device),
        "EQRM 0.9": eqrm.EQRM(0.9).to(device),
        "VREx": VREx().to(device),
        "GroupDRO": dro.to(device),
        "Superquantile 0.9": eqrm.Superquantile(0.9).to(device),
    }


class Step:
    """A training step of one objective, in eager mode or captured."""

    def __init__(self, setting: Setting, objective: Objective, device: torch.device) -> None:
        torch.manual_seed(0)
        layers: list[nn.Module] = []
        for before, after in zip(setting.widths, setting.widths[1:], strict=False):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.network = nn.Sequential(*layers[:-1]).to(device)
        capturable = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=1e-4, capturable=capturable, foreach=True
        )
        n = setting.domains * setting.examples
        self.x = torch.randn(n, setting.widths[0], device=device)
        self.y = (torch.rand(n, device=device) < 0.5).float()
        self.domains = torch.arange(setting.domains, device=device).repeat(setting.examples)
        self.count, self.objective = setting.domains, objective

    def __call__(self) -> None:
        """Forward, loss, backward, update."""
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.network(self.x).squeeze(-1)
        losses = nn.functional.binary_cross_entropy_with_logits(outputs, self.y, reduction="none")
        self.objective(losses, self.domains, self.count).backward()
        self.optimizer.step()


def launches(objective: Objective, device: torch.device) -> tuple[int, int]:
    """Kernels (and fills of memory) that an objective launches forward and backward."""
    losses = torch.rand(8000, device=device, requires_grad=True)
    domains = torch.arange(1000, device=device).repeat(8)
    objective(losses, domains, 1000).backward()
    counts = []
    value: Tensor | None = None
    for part in ("forward", "backward"):
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            if part == "forward":
                value = objective(losses, domains, 1000)
            elif value is not None:
                torch.autograd.grad(value, losses)
            torch.cuda.synchronize()
        kinds = (torch.autograd.DeviceType.CUDA,)
        counts.append(sum(e.device_type in kinds for e in seen.events() if "Sync" not in e.name))
    return counts[0], counts[1]


def memory_steps(device: torch.device) -> dict[str, Callable[[], object]]:
    """A batch of 64 domains x 8 with and without a memory of all domains."""
    setting = Setting("memory", (50, 128, 128, 1), 64, 8)
    ids = torch.randint(0, REMEMBERED, (64,), device=device).repeat(8)
    remembering = eqrm.EQRM(0.9, memory=RiskMemory(REMEMBERED)).to(device)
    plain = Step(setting, eqrm.EQRM(0.9).to(device), device)
    with_memory = Step(setting, lambda losses, _, __: remembering(losses, ids), device)
    return {"EQRM 0.9": plain, "with a memory of 45,000 domains": with_memory}


def step_table(rows: dict[str, dict[str, Timing]], least: str) -> str:
    """Milliseconds per step and ratios to the least."""
    names = list(next(iter(rows.values())))
    header = ["step", *(f"{name} ms" for name in names)]
    header += [f"{name} / {least}" for name in names if name != least]
    cells = []
    for title, timings in rows.items():
        cell = [title, *(f"{timings[name].milliseconds:.3f}" for name in names)]
        base = timings[least]
        cell += [f"{timings[name].times(base):.2f}" for name in names if name != least]
        cells.append(cell)
    return markdown(header, cells)


def main(arguments: list[str]) -> int:
    """Measure and print."""
    device = gpu_device(arguments, __doc__)
    if device is None:
        return 2
    on_gpu = device.type == "cuda"
    synchronise = torch.cuda.synchronize if on_gpu else None
    budget = Budget(rounds=15, burst=0.02, longest=3.0, pause=0.01)
    eager, in_graphs = {}, {}
    for setting in SETTINGS if on_gpu else SETTINGS[2:]:
        steps = {name: Step(setting, own, device) for name, own in objectives(device).items()}
        eager[setting.name] = interleaved(steps, budget, synchronise)
        if on_gpu:
            graphs = {name: captured(step) for name, step in steps.items()}
            in_graphs[setting.name] = interleaved(graphs, budget, synchronise)
    pages = [measured_on(device.type), "Eager mode:", step_table(eager, "plain mean")]
    if on_gpu:
        pages += ["In a CUDA graph:", step_table(in_graphs, "ERM")]
        counted = [[n, *map(str, launches(o, device))] for n, o in objectives(device).items()]
        header = ["objective, 1000 domains x 8", "launches forward", "launches backward"]
        pages += [markdown(header, counted)]
    memory = interleaved(memory_steps(device), budget, synchronise)
    added = 1e3 * (memory["with a memory of 45,000 domains"].median - memory["EQRM 0.9"].median)
    pages += [f"A risk memory of 45,000 domains adds {added:.3f} ms to a step of 64 domains x 8."]
    print("\n\n".join(pages))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
