"""Throughput of runs trained together, against the same runs one after the other.

    PYTHONPATH=. python benchmarks/many_runs.py [--device cuda] [--tf32] [--half] [--quick]
        [--json FILE]

The network of the paper's ColoredMNIST, an MLP with three hidden layers and dropout, ERM burn-in
and then EQRM with a fresh Adam and cosine decay. Three ways to train the same runs:

- together: ``train_many`` with all runs;
- stack of one: ``train_many`` with one run at a time;
- torch: a module, ``torch.optim.Adam`` and a loop, one run at a time, as usually written.

Throughput is steps of runs per second. Only the first runs are trained one by one (the column
"timed"); the risks of their first 50 steps are compared with those of the same runs in the stack
(after hundreds of steps with small batches the rounding of float32 has grown into other weights;
in float64 the whole runs agree, as networks.many-runs of ``make verify`` checks). Settings with
levels share their burn-in when trained together, since runs of one seed are the same until then;
those with seeds only show what batching alone brings. Images are random: the time does not depend
on what they show.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from studies.many_runs.train_many import Run, runs_of, train_many
from tables import aligned, busy_warning, machine, write_json
from torch import Tensor

from eqrm.data import DomainBatches, DomainData
from eqrm.level import Level
from eqrm.objectives import EQRM
from eqrm.objectives.base import Phase
from eqrm.objectives.risk_objective import RiskObjective
from eqrm.predictors.small_networks import MLP
from eqrm.training.state import seed_everything

LOG_TAILS = (-1000.0, -750.0, -500.0, -250.0, -100.0)


@dataclass(frozen=True)
class Setting:
    """Runs to train: seeds × levels, and the size of network and batches."""

    name: str
    seeds: int
    levels: int
    width: int
    examples: int
    batch: int | None
    burn_in: int
    steps: int
    timed: int = 2
    learning_rates: tuple[float, float] = (1e-3, 2e-4)

    def runs(self) -> list[Run]:
        """The runs, all levels of a seed next to each other."""
        first, second = self.learning_rates
        after = [
            Phase(EQRM(Level(log_tail=tail)), self.steps, second, "cosine")
            for tail in LOG_TAILS[: self.levels]
        ]
        return runs_of(range(self.seeds), Phase("erm", self.burn_in, first), after)


ON_CPU = (
    Setting("20 seeds, small batches", 20, 1, 128, 5_000, 64, 40, 40),
    Setting("20 seeds, large batches", 20, 1, 128, 5_000, 2_500, 4, 4),
    Setting("4 seeds x 5 levels", 4, 5, 128, 5_000, 500, 30, 20),
)
ON_GPU = (
    Setting("20 seeds, small batches", 20, 1, 128, 25_000, 64, 200, 200),
    Setting("50 seeds, large batches", 50, 1, 128, 25_000, 2_500, 200, 100),
    Setting("paper: 10 seeds x 5 levels", 10, 5, 390, 25_000, None, 400, 200, 3, (1e-4, 1e-4)),
)


def network(width: int) -> MLP:
    """The paper's MLP."""
    return MLP(392, 1, width, 3, 0.2, "xavier", "binary-cross-entropy")


def training_data(examples: int) -> DomainData:
    """Two domains of so many examples: random images, one half of which gives the label."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2 * examples, 392, generator=generator)
    domains = torch.arange(2 * examples) // examples
    clean = x[:, :196].mean(1) > x[:, 196:].mean(1)
    noise = torch.rand(2 * examples, generator=generator) < torch.where(domains == 0, 0.1, 0.2)
    return DomainData(x, (clean ^ noise).float(), domains, ("0.1", "0.2"))


def plain_run(run: Run, data: DomainData, setting: Setting) -> None:
    """One run with torch's own module, dropout, optimizer and schedule; data on the device."""
    seed_everything(run.seed)
    predictor = network(setting.width).to(data.device)
    stream = DomainBatches(data, None, setting.batch, seed=run.seed)
    for phase in run.phases:
        optimizer = torch.optim.Adam(predictor.parameters(), lr=phase.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, phase.steps)
        for _ in range(phase.steps):
            batch = data if setting.batch is None else data.rows(next(stream))
            losses = predictor.losses(predictor(batch.x), batch.y)
            optimizer.zero_grad()
            objective = phase.minimised
            if isinstance(objective, RiskObjective):
                objective(losses, batch.domains, data.num_domains).backward()
            optimizer.step()
            if phase.schedule == "cosine":
                schedule.step()


def seconds(action: Callable[[], object], device: torch.device) -> float:
    """Wall time of one call, the device's work included."""
    _wait(device)
    start = time.perf_counter()
    action()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Row:
    """What was measured for one setting."""

    setting: Setting
    runs: int
    run_steps: int
    together: float
    alone_per_run: float
    torch_per_run: float
    difference: float
    peak_gigabytes: float | None

    @property
    def throughput(self) -> float:
        """Steps of runs per second, together."""
        return self.run_steps / self.together

    @property
    def gain_over_alone(self) -> float:
        """Seconds of all runs one by one (stacks of one), over seconds together."""
        return self.alone_per_run * self.runs / self.together

    @property
    def gain_over_torch(self) -> float:
        """Seconds of all runs one by one in plain torch, over seconds together."""
        return self.torch_per_run * self.runs / self.together

    def cells(self) -> list[str]:
        """For the table."""
        return [
            self.setting.name,
            str(self.runs),
            f"{self.together:.2f}",
            f"{self.throughput:,.0f}",
            str(self.setting.timed),
            f"{self.alone_per_run:.2f}",
            f"{self.torch_per_run:.2f}",
            f"{self.gain_over_alone:.2f}",
            f"{self.gain_over_torch:.2f}",
            f"{self.difference:.1e}",
            "-" if self.peak_gigabytes is None else f"{self.peak_gigabytes:.1f}",
        ]


HEADER = ["setting", "runs", "together s", "run-steps/s", "timed", "stack of 1: s/run"]
HEADER += ["torch: s/run", "x stack of 1", "x torch", "risk difference", "peak GB"]
COMPARED_STEPS = 50


def measure(setting: Setting, device: torch.device, half: bool = False) -> Row:
    """Warm up, train together, then some of the runs one by one in turns."""
    data = training_data(setting.examples).to(device)
    runs, chosen = setting.runs(), setting.runs()[: setting.timed]

    def together(which: Sequence[Run]) -> Tensor:
        trained = train_many(
            which,
            data,
            lambda: network(setting.width),
            examples_per_domain=setting.batch,
            device=device,
            half=half,
        )
        return trained.risks

    short = replace(setting, burn_in=2, steps=2)
    together(short.runs())
    together(short.runs()[:1])
    for _ in range(2):  # the first backward pass of a process takes seconds
        plain_run(short.runs()[0], data, setting)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    found: list[Tensor] = []
    whole = seconds(lambda: found.append(together(runs)), device)
    peak = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else None
    alone, plain, difference = 0.0, 0.0, 0.0
    for position, run in enumerate(chosen):
        alone += seconds(lambda run=run: found.append(together([run])), device)
        plain += seconds(lambda run=run: plain_run(run, data, setting), device)
        apart = (found[-1][0] - found[0][position])[:COMPARED_STEPS]
        difference = max(difference, float(apart.abs().max()))
    return Row(
        setting,
        runs=len(runs),
        run_steps=sum(run.steps for run in runs),
        together=whole,
        alone_per_run=alone / len(chosen),
        torch_per_run=plain / len(chosen),
        difference=difference,
        peak_gigabytes=peak,
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 …")
    parser.add_argument("--tf32", action="store_true", help="matrix products in TF32 (CUDA)")
    parser.add_argument("--half", action="store_true", help="train_many with half=True")
    parser.add_argument("--quick", action="store_true", help="use a tenth of the steps")
    parser.add_argument("--json", type=Path, default=Path("bench-output/many_runs.json"))
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure every setting of the device."""
    given = parse(arguments)
    device = torch.device(given.device)
    if given.tf32:
        torch.set_float32_matmul_precision("high")
    settings = ON_GPU if device.type == "cuda" else ON_CPU
    if given.quick:
        settings = tuple(
            replace(s, burn_in=max(2, s.burn_in // 10), steps=max(2, s.steps // 10))
            for s in settings
        )
    print(f"{machine()['processor']}, {torch.get_num_threads()} threads, {device}", end="")
    print(", TF32" if given.tf32 else "", ", half" if given.half else "", end="")
    print("", busy_warning() if device.type == "cpu" else "")
    rows = [measure(setting, device, given.half) for setting in settings]
    print(aligned(HEADER, [row.cells() for row in rows]))
    content = [dict(zip(HEADER, row.cells(), strict=True)) for row in rows]
    write_json(
        given.json, {"rows": content, "tf32": given.tf32, "half": given.half, "machine": machine()}
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
