"""EQRM where a batch holds 16 of 10,000 domains: with and without a memory of all risks.

    python benchmarks/many_domains.py [--quick] [--write-docs]

Worlds with known true risks (benchmarks/worlds.py), five seeds each, α = .9, KDE with the
Gaussian-optimal bandwidth. All runs by mini-batches take the same number of steps, from ERM's
optimum, with the same Adam and the same decay of its learning rate; ERM and full-batch EQRM are
minimised by L-BFGS. ``--write-docs`` writes docs/reproductions/many-domains.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from many_domains_report import (
    Learned,
    WholeDomains,
    few_table,
    few_verdicts,
    tracking_table,
    whole_table,
    whole_verdicts,
)
from tables import machine
from world_training import (
    BATCH,
    LEARNING_RATE,
    LEVEL,
    Schedule,
    Trained,
    erm,
    full_batch,
    gradient_error,
    train,
    with_true_risks,
)
from worlds import HELD_OUT, LinearWorld, LogisticWorld, World

from eqrm.objectives import RiskMemory

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproductions" / "many-domains.md"
OPENING = """# Many domains: what a memory of risks gains
[The guide](../many-domains.md) says what is compared. Written by \
`python benchmarks/many_domains.py --write-docs`.
"""

WHOLE = 100
"""Examples of a whole domain in the logistic world."""

VISIBLE, EXAMPLES = 5, 20
"""Examples that a visit sees, of those that a domain has."""

AVERAGING = 0.3
RELIABLE, UNRELIABLE = 1.2, 0.8
"""Means of the unstable features: with whole domains, and with few examples per domain."""


@dataclass(frozen=True)
class Size:
    """How much to run; the bounds are meant for the full size."""

    domains: int = 10_000
    worlds: int = 5
    epochs: int = 4
    epochs_with_few: int = 5
    """More of them, since noise is averaged over visits."""


QUICK = Size(domains=1_600, worlds=2, epochs=12, epochs_with_few=12)


def memories(domains: int) -> dict[str, RiskMemory]:
    """The memories that are compared where a visit sees few examples."""
    return {
        "plain memory": RiskMemory(domains),
        "averaged memory": RiskMemory(domains, averaging=AVERAGING),
        "noise-aware memory": RiskMemory(domains, averaging=AVERAGING, denoise=True),
        "noise-aware, sizes known": RiskMemory(
            domains, averaging=AVERAGING, denoise=True, domain_sizes=EXAMPLES
        ),
    }


def progress(text: str) -> None:
    """A line for who waits."""
    print(f"  {time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def whole_domains(make: Callable[[int], World], size: Size) -> WholeDomains:
    """ERM, batch-only, memory and full-batch where a batch holds whole domains."""
    first = make(0)
    found = WholeDomains(first.name, first.coefficients)
    for seed in range(size.worlds):
        progress(f"whole domains, {first.name}, world {seed + 1} of {size.worlds}")
        world = make(seed)
        start = erm(world)
        schedule = Schedule(size.epochs, seed=seed)
        remembering = train(world, start, RiskMemory(size.domains), schedule, watch=True)
        found.looks += remembering.looks
        found.staleness = _staleness(remembering)
        found.gradient_errors.append(gradient_error(world, start, seed))
        found.learned.add("ERM", world, start)
        found.learned.add("batch only", world, train(world, start, None, schedule).beta)
        found.learned.add("memory", world, remembering.beta)
        found.learned.add("full batch", world, full_batch(world, start))
        found.learned.add("true risks", world, with_true_risks(world, start))
    return found


def few_examples(size: Size) -> tuple[Learned, list[str]]:
    """All methods where a visit sees 5 of a domain's 20 examples; and what memories report."""
    learned = Learned()
    reports: list[str] = []
    for seed in range(size.worlds):
        progress(f"{VISIBLE} of {EXAMPLES} examples, world {seed + 1} of {size.worlds}")
        world = LogisticWorld(seed, size.domains, EXAMPLES, UNRELIABLE)
        start = erm(world)
        schedule = Schedule(size.epochs_with_few, visible=VISIBLE, seed=seed)
        learned.add("constant", world, torch.zeros_like(start))
        learned.add("ERM", world, start)
        learned.add("batch only", world, train(world, start, None, schedule).beta)
        for name, memory in memories(size.domains).items():
            run = train(world, start, memory, schedule)
            learned.add(name, world, run.beta)
            if seed == 0:
                reports.append(f"{name}: {_staleness(run)}")
        learned.add("full batch", world, full_batch(world, start))
        learned.add("true risks", world, with_true_risks(world, start))
    return learned, reports


def _staleness(run: Trained) -> str:
    if run.memory is None:
        return "no memory"
    text = str(run.memory.staleness())
    if run.memory.denoise:
        text += f"; {run.memory.reliability():.0%} of their spread is not noise"
    return text


def settings_text(size: Size, seconds: float) -> str:
    """What was run, in words."""
    per_epoch = size.domains // BATCH
    return (
        f"{size.domains:,} training domains, {BATCH} a batch, {size.worlds} worlds of each kind, "
        f"α = {LEVEL}, {HELD_OUT:,} unseen domains with exact risks; mean ± standard error over "
        "worlds. Mini-batches: Adam from ERM's optimum, learning rate "
        f"{LEARNING_RATE} falling linearly to 0, {size.epochs} epochs = "
        f"{size.epochs * per_epoch:,} steps with whole domains, {size.epochs_with_few} epochs = "
        f"{size.epochs_with_few * per_epoch:,} steps with {VISIBLE} of {EXAMPLES} examples. "
        f"Logistic world: {WHOLE} examples in a whole domain, unstable features of mean "
        f"{RELIABLE} with whole domains and {UNRELIABLE} with {VISIBLE} of {EXAMPLES}. "
        f"Averaging {AVERAGING} in averaged and noise-aware memories. "
        f"The run took {seconds / 60.0:.1f} minutes of processor time on an "
        f"{machine()['processor']} with {torch.get_num_threads()} thread(s)."
    )


def main(arguments: list[str]) -> int:
    """Run, print, store; 1 when a claim does not hold at full size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,600 domains, 2 worlds")
    parser.add_argument("--write-docs", action="store_true", help=f"tables into {PAGE.name}")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else Size()
    began = time.process_time()
    found = [
        whole_domains(lambda seed: LogisticWorld(seed, size.domains, WHOLE, RELIABLE), size),
        whole_domains(lambda seed: LinearWorld(seed, size.domains), size),
    ]
    learned, reports = few_examples(size)
    setting = settings_text(size, time.process_time() - began)
    tables = [tracking_table(found), *(whole_table(kind) for kind in found), few_table(learned)]
    stale = [f"{kind.name}, whole domains: {kind.staleness}" for kind in found] + reports
    verdicts = [v for kind in found for v in whole_verdicts(kind)] + few_verdicts(learned)
    claims = [
        f"{'PASS' if holds else 'FAIL'}  {claim}: {measured}" for claim, measured, holds in verdicts
    ]
    print("\n\n".join([setting, *tables, "\n".join(stale), "\n".join(claims)]))
    if options.quick:
        print(
            "\n--quick shows that everything runs: an epoch of 100 steps is too short for the 2%."
        )
    if options.write_docs:
        text = "\n\n".join([setting, *tables])
        PAGE.write_text(f"{OPENING}\n{text}\n", encoding="utf-8")
        print(f"written to {PAGE}")
    failed = [claim for claim, (*_, holds) in zip(claims, verdicts, strict=True) if not holds]
    told = f"{len(verdicts) - len(failed)} of {len(verdicts)} claims hold"
    print("; ".join([told, *failed]))
    return 0 if options.quick or not failed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
