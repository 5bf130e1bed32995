"""What EQRM costs in a training step, compared with the same step of ERM: by hand and in a trainer.

    python benchmarks/training_step.py [--quick]

An MLP 392→390→390→390→1 with binary cross-entropy and Adam, on the CPU, in two settings: batches
of 2 domains × 25,000 examples, as in the paper's ColoredMNIST, and of 1,000 domains × 32.

- *By hand*: forward, loss, backward and Adam's update. ERM is the plain mean of the losses, the
  least that any training can do; EQRM is ``EQRM(0.9)(losses, domains)`` as a user writes it,
  including its checks of domains and losses.
- *The trainer*: its own step, with everything that it does besides: schedules, checks, the
  objective's generator.
- *The data path*: drawing the rows of a batch and gathering them from the data in memory.

All take turns on the same examples (by hand, those of the domains are mixed), each with a copy of
the same network, and at least 20 steps of each are compared.

Other programs on the same cores can spoil a measurement by 10%, so a bound that is exceeded is
measured again, up to three times; every attempt is printed. ``make verify`` requires EQRM ≤ 1.05
ERM, by hand and in the trainer, and a data path ≤ 5% of the step (``training.step-cost``). Takes
about 4 minutes on 2 cores.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from tables import aligned, begun
from timing import Action, Budget, Timing, attempts, interleaved
from torch import Tensor
from torch.nn import functional

from eqrm.data import DomainBatches, DomainData
from eqrm.objectives import EQRM, ERM
from eqrm.objectives.base import Objective
from eqrm.predictors import MLP
from eqrm.training import Phase, Trainer, TrainingSettings

INPUTS, WIDTH = 392, 390
BOUND, DATA_BOUND = 1.05, 0.05
STEPS = 21
SETTINGS = ((2, 25_000, 25_000), (1000, 64, 32))
QUICK = ((2, 2500, 2500), (1000, 8, 4))
"""Domains, examples of each in the data, examples of each in a batch."""

Loss = Callable[[Tensor, Tensor], Tensor]


def mean_loss(losses: Tensor, domains: Tensor) -> Tensor:
    """ERM, as everybody writes it."""
    return losses.mean()


BY_HAND: dict[str, Loss] = {"erm": mean_loss, "eqrm": EQRM(0.9)}


@dataclass(frozen=True)
class Row:
    """Timings of one setting: steps by hand, and of the trainer."""

    domains: int
    examples: int
    by_hand: dict[str, Timing]
    trainer: dict[str, Timing]
    """Also of the data path, as ``"data"``."""

    @property
    def ratio_by_hand(self) -> float:
        """EQRM's step over ERM's, both written by hand."""
        return self.by_hand["eqrm"].times(self.by_hand["erm"])

    @property
    def ratio(self) -> float:
        """EQRM's step over ERM's, both of the trainer."""
        return self.trainer["eqrm"].times(self.trainer["erm"])

    @property
    def data_share(self) -> float:
        """Fetching a batch as a share of the trainer's ERM step."""
        return self.trainer["data"].times(self.trainer["erm"])

    @property
    def over_hand(self) -> float:
        """The trainer's ERM step over the hand-written one."""
        return self.trainer["erm"].times(self.by_hand["erm"])

    @property
    def passed(self) -> bool:
        """Whether the bounds hold."""
        return max(self.ratio_by_hand, self.ratio) <= BOUND and self.data_share <= DATA_BOUND

    def __str__(self) -> str:
        """The ratios in a phrase."""
        return (
            f"{self.examples} examples of {self.domains} domains: by hand "
            f"{self.ratio_by_hand:.3f}, in the trainer {self.ratio:.3f}, data path "
            f"{self.data_share:.3f}"
        )


def digits(domains: int, examples: int) -> DomainData:
    """Random inputs of ColoredMNIST's size and binary labels."""
    generator = torch.Generator().manual_seed(0)
    n = domains * examples
    x = torch.rand(n, INPUTS, generator=generator)
    y = (torch.rand(n, generator=generator) < 0.5).float()
    return DomainData(x, y, torch.arange(n) % domains, tuple(map(str, range(domains))))


def network() -> MLP:
    """Three hidden layers, the same weights each time."""
    torch.manual_seed(0)
    return MLP(INPUTS, 1, width=WIDTH, depth=3, loss="binary-cross-entropy")


def trainer(minimised: Objective, data: DomainData, per_domain: int) -> Trainer:
    """A trainer that stands at its first step."""
    settings = TrainingSettings(device="cpu", tensorboard=False)
    batches = DomainBatches(data, None, per_domain)
    made = Trainer(network(), data, [Phase(minimised, 10**6, 1e-4)], batches, settings=settings)
    made.state.enter_phase(0)
    return made


def step_by_hand(loss: Loss, x: Tensor, y: Tensor, domains: Tensor) -> Action:
    """A step as a user writes it, on a network of its own."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        outputs = model(x)[:, 0]
        losses = functional.binary_cross_entropy_with_logits(outputs, y, reduction="none")
        loss(losses, domains).backward()
        optimizer.step()

    return step


def measure(domains: int, examples: int, per_domain: int) -> Row:
    """Time all steps and the data path in turns."""
    data = digits(domains, examples)
    erm, eqrm = (trainer(each, data, per_domain) for each in (ERM(), EQRM(0.9)))
    batch, place = erm._next_batch(), erm.phases.place(0)
    mixed = torch.randperm(len(batch.y), generator=torch.Generator().manual_seed(0))
    x, y, ids = batch.x[mixed], batch.y[mixed], batch.domains[mixed]
    timings = interleaved(
        {
            **{f"{name} by hand": step_by_hand(loss, x, y, ids) for name, loss in BY_HAND.items()},
            "erm": lambda: erm._take_step(batch, place),
            "eqrm": lambda: eqrm._take_step(batch, place),
            "data": erm._next_batch,
        },
        Budget(rounds=STEPS, burst=0.0, longest=math.inf, pause=0.0),
    )
    return Row(
        domains,
        len(y),
        by_hand={name: timings[f"{name} by hand"] for name in BY_HAND},
        trainer={name: timings[name] for name in ("erm", "eqrm", "data")},
    )


def print_rows(rows: list[Row]) -> None:
    """Milliseconds and ratios, a line per attempt, by hand and then in the trainer."""
    both = ["domains", "examples", "steps each", "ERM ms", "EQRM ms", "EQRM/ERM", "bound"]
    hand, trained = [], []
    for row in rows:
        size = [f"{row.domains}", f"{row.examples}", f"{len(row.by_hand['eqrm'].samples)}"]
        verdict = "pass" if row.passed else "FAIL"
        hand.append(
            [
                *size,
                *(f"{row.by_hand[name].milliseconds:.1f}" for name in BY_HAND),
                f"{row.ratio_by_hand:.3f}",
                f"{BOUND:g}",
                verdict,
            ]
        )
        trained.append(
            [
                *size,
                *(f"{row.trainer[name].milliseconds:.1f}" for name in BY_HAND),
                f"{row.ratio:.3f}",
                f"{BOUND:g}",
                f"{row.trainer['data'].milliseconds:.1f}",
                f"{row.data_share:.3f}",
                f"{DATA_BOUND:g}",
                f"{row.over_hand:.3f}",
                verdict,
            ]
        )
    print("By hand")
    print(aligned([*both, ""], hand))
    print("\nThe trainer")
    print(aligned([*both, "data ms", "data/ERM", "bound", "ERM/by hand", ""], trained))


def main(arguments: list[str]) -> int:
    """Measure both settings; 1 if a bound is broken."""
    quick = begun(arguments, __doc__, "about a tenth of the examples")
    measured = [
        attempts(lambda setting=setting: measure(*setting))  # type: ignore[misc]
        for setting in (QUICK if quick else SETTINGS)
    ]
    print_rows([row for each in measured for row in each])
    rows = [each[-1] for each in measured]
    passed = all(row.passed for row in rows)
    print(
        f"{'pass' if passed else 'FAIL'}: EQRM/ERM, bound {BOUND:g}, and the data path as a share "
        f"of a step, bound {DATA_BOUND:g}: {'; '.join(map(str, rows))}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
