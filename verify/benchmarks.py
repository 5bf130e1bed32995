"""Speed, memory and agreement at full size: what the benchmarks find against their bounds.

A benchmark ends with 0 where its bounds hold, and its last lines say what was measured.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from verify.registry import Options, Result, check, passed, run_program


@dataclass(frozen=True)
class Benchmark:
    """A check and the benchmark that it runs; how many of the last ``lines`` are its summary."""

    name: str
    title: str
    program: str
    arguments: tuple[str, ...] = ()
    lines: int = 1
    alone: bool = True


def run_benchmark(options: Options, program: str, *arguments: str, lines: int = 1) -> Result:
    """Run a benchmark at full size."""
    place = "-".join([program, *(each.strip("-") for each in arguments)])  # parts run side by side
    command = [sys.executable, f"benchmarks/{program}.py", *arguments]
    finished = run_program(options, place, command)
    return passed(finished.code == 0, f"{finished.last_lines(lines)}; log in {finished.log}")


BENCHMARKS = (
    Benchmark("boosting.speed", "a round with EQRM beside the built-in objective's", "boosting"),
    Benchmark(
        "control.large-files",
        "eqrm control: ten million rows and three models in 20 s and 1.5 GB, as pandas; more than "
        "fits",
        "control_large",
    ),
    Benchmark(
        "distributions.speed",
        "speed against the published bisection and the mean",
        "quantile",
        ("--parts", "sizes"),
    ),
    Benchmark(
        "distributions.rules",
        "speed of the bandwidth rules, in processor time",
        "quantile",
        ("--parts", "rules"),
        alone=False,
    ),
    Benchmark(
        "distributions.memory",
        "extra memory of the quantile, up to ten million risks",
        "quantile",
        ("--parts", "memory"),
        alone=False,
    ),
    Benchmark(
        "estimators.speed",
        "6 levels in at most 20 s and twice 6 fits of LogisticRegression",
        "estimator_speed",
    ),
    Benchmark(
        "evaluation.large-files",
        "100 million rows in 15 s and 1 GB, a billion in 90 s; agrees with pandas",
        "evaluate_large",
    ),
    Benchmark(
        "linear.speed",
        "14 levels in 1 s, 50 features in 5 s, 100 times as fast as training on rows",
        "linear_speed",
    ),
    Benchmark(
        "objectives.many-domains",
        "10,000 domains: quantile and gradient of the risk memory, and what is learned",
        "many_domains",
        alone=False,
    ),
    Benchmark(
        "recalibration.large-files",
        "eqrm recalibrate: ten million rows in 60 s and 2 GB, within 1e-4 of the optimum on all "
        "rows",
        "recalibrate_large",
    ),
    Benchmark(
        "sweeps.overhead",
        "40 runs of 10 s: the sweep costs at most 5% of the runs' own time",
        "sweep_overhead",
    ),
    Benchmark(
        "sweeps.tables",
        "10,000 finished runs are tabulated in at most 10 s of processor time",
        "sweep_tables",
    ),
    Benchmark(
        "training.step-cost",
        "a step by hand or of the trainer: EQRM ≤ 1.05 ERM, the data path ≤ 5%",
        "training_step",
    ),
    Benchmark(
        "training.many-domains",
        "45,000 domains: constant memory, at most 3 ms and 1.1 ERM steps",
        "many_domains_training",
        lines=2,
    ),
)


def register(it: Benchmark) -> None:
    """Add the check of one benchmark."""

    @check(it.name, it.title, alone=it.alone)
    def measured(options: Options) -> Result:
        return run_benchmark(options, it.program, *it.arguments, lines=it.lines)


for benchmark in BENCHMARKS:
    register(benchmark)
