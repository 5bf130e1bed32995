"""45,000 small domains: what the risk memory adds to a step, and whether memory stays constant.

    python benchmarks/many_domains_training.py [--quick]

A world of 45,000 domains with 12 to 28 examples each (20 features, a slope of the domain's
own), batches of 512 domains × 4 examples, and an MLP wide enough that ERM's step takes 30 ms
or more. The trainer's steps with ERM and with EQRM(0.9) and a :class:`eqrm.RiskMemory` take
turns on the same batches. Printed are both medians, their ratio, what the memory adds (EQRM
with the memory minus ERM, on given losses, forward and backward, in one thread's processor
time, which is free of the noise of the network and of other programs), the fetching of a batch,
and the resident memory of the process early and late in a run of a narrow network that visits
every domain several times.

``make verify`` requires at most 3 ms and 1.1 ERM steps (training.many-domains); bounds that are
exceeded are measured again, up to three times. Takes about 2 minutes on 2 cores.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import torch
from memory import _status as process_status
from tables import aligned, begun
from timing import Budget, Timing, attempts, interleaved
from training_step import STEPS

from eqrm.data import DomainBatches, DomainData
from eqrm.objectives import EQRM, ERM, RiskMemory
from eqrm.objectives.base import Objective
from eqrm.predictors import MLP
from eqrm.training import Phase, Trainer, TrainingSettings

DOMAINS, FEATURES, WIDTH = 45_000, 20, 512
PER_BATCH, PER_DOMAIN = 512, 4
EXTRA_BOUND, RATIO_BOUND, GROWTH_BOUND = 3.0, 1.1, 20.0
"""Milliseconds, ERM steps, megabytes."""


@dataclass(frozen=True)
class Row:
    """Timings of one attempt."""

    steps: dict[str, Timing]
    alone: dict[str, Timing]

    @property
    def ratio(self) -> float:
        """The step with the memory over ERM's."""
        return self.steps["memory"].times(self.steps["erm"])

    @property
    def extra(self) -> float:
        """Milliseconds that EQRM with the memory takes more than ERM, on given losses."""
        return self.alone["memory"].milliseconds - self.alone["erm"].milliseconds

    @property
    def passed(self) -> bool:
        """Whether both bounds hold."""
        return self.ratio <= RATIO_BOUND and self.extra <= EXTRA_BOUND


def world(domains: int) -> DomainData:
    """y = x₀ + s_e·x₁ + noise, the slope s_e lognormal over domains."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(12, 29, (domains,), generator=generator)
    ids = torch.repeat_interleave(torch.arange(domains), sizes)
    x = torch.randn(len(ids), FEATURES, generator=generator)
    slopes = torch.empty(domains).log_normal_(0.0, 0.7, generator=generator)
    y = x[:, 0] + slopes[ids] * x[:, 1] + 0.3 * torch.randn(len(ids), generator=generator)
    return DomainData(x, y, ids, tuple(map(str, range(domains))))


def trainer(minimised: Objective, data: DomainData, width: int = WIDTH) -> Trainer:
    """A trainer that stands at its first step."""
    torch.manual_seed(0)
    made = Trainer(
        MLP(FEATURES, 1, width=width, depth=3, loss="squared"),
        data,
        [Phase(minimised, 10**6, 1e-3)],
        DomainBatches(data, PER_BATCH, PER_DOMAIN),
        settings=TrainingSettings(device="cpu", tensorboard=False),
    )
    made.state.enter_phase(0)
    return made


def objectives(domains: int) -> dict[str, Objective]:
    """ERM, and EQRM with a memory of every domain."""
    return {"erm": ERM(), "memory": EQRM(0.9, memory=RiskMemory(domains))}


def measure(data: DomainData) -> Row:
    """Time the trainer's steps in turns, then the objectives on given losses."""
    trainers = {name: trainer(o, data) for name, o in objectives(data.num_domains).items()}
    place = trainers["erm"].phases.place(0)
    batches = iter(lambda: trainers["erm"]._next_batch(), None)
    for _ in range(data.num_domains // PER_BATCH):  # most domains are remembered then
        trainers["memory"]._take_step(next(batches), place)
    batch = next(batches)
    budget = Budget(rounds=STEPS, burst=0.0, longest=math.inf, pause=0.0)
    steps = interleaved(
        {
            **{name: lambda t=t: t._take_step(batch, place) for name, t in trainers.items()},
            "data": trainers["erm"]._next_batch,
        },
        budget,
    )
    losses = torch.rand(len(batch.y)).requires_grad_()

    def alone(minimised: Objective) -> None:
        losses.grad = None
        minimised(losses, batch.domains, batch.num_domains).backward()

    chosen = {name: t.state.objective for name, t in trainers.items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that the processor's time is the time it takes
    taken = interleaved(
        {name: lambda o=o: alone(o) for name, o in chosen.items()},
        Budget(rounds=100, burst=0.0, longest=math.inf, pause=0.0),
        clock=time.process_time,
    )
    torch.set_num_threads(threads)
    return Row(steps, taken)


def growth(data: DomainData, steps: int) -> dict[str, float]:
    """Resident megabytes after a tenth of a run and at its end, and how many domains were seen."""
    made = trainer(objectives(data.num_domains)["memory"], data, width=16)
    place = made.phases.place(0)
    resident = []
    for step in range(steps):
        made._take_step(made._next_batch(), place)
        if step in (steps // 10, steps - 1):
            resident.append(process_status("VmRSS") / 1e6)
    seen = made.state.objective.memory.last_seen >= 0  # type: ignore[union-attr]
    return {"early": resident[0], "late": resident[1], "seen": int(seen.sum()), "steps": steps}


def print_rows(rows: list[Row]) -> None:
    """Milliseconds and ratios, a line per attempt."""
    header = ["domains", "steps each", "ERM ms", "memory ms", "ratio", "bound", "data ms"]
    header += ["ERM alone ms", "memory alone ms", "adds ms", "bound", ""]
    cells = [
        [
            f"{DOMAINS}",
            f"{len(row.steps['memory'].samples)}",
            *(f"{row.steps[name].milliseconds:.1f}" for name in ("erm", "memory")),
            f"{row.ratio:.3f}",
            f"{RATIO_BOUND:g}",
            f"{row.steps['data'].milliseconds:.2f}",
            *(f"{row.alone[name].milliseconds:.2f}" for name in ("erm", "memory")),
            f"{row.extra:.2f}",
            f"{EXTRA_BOUND:g}",
            "pass" if row.passed else "FAIL",
        ]
        for row in rows
    ]
    print(aligned(header, cells))


def main(arguments: list[str]) -> int:
    """Measure; 1 if a bound is broken."""
    quick = begun(arguments, __doc__, "a short run for the memory")
    data = world(DOMAINS)
    held = growth(data, 200 if quick else 600)
    grown = held["late"] - held["early"]
    rows = attempts(lambda: measure(data))
    print_rows(rows)
    print(
        f"{held['steps']:.0f} steps, {held['seen']:.0f} of {DOMAINS} domains seen: resident memory "
        f"{held['early']:.0f} MB early, {held['late']:.0f} MB late, grown by {grown:.1f} MB, "
        f"bound {GROWTH_BOUND:g}"
    )
    passed = rows[-1].passed and grown <= GROWTH_BOUND
    print(
        f"{'pass' if passed else 'FAIL'}: the memory adds {rows[-1].extra:.2f} ms, bound "
        f"{EXTRA_BOUND:g}; a step is {rows[-1].ratio:.3f} of ERM's, bound {RATIO_BOUND:g}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
