"""The risk distributions at full size: accuracy, bandwidth rules, speed, CUDA."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from verify.registry import (
    Options,
    Result,
    check,
    package_environment,
    passed,
    run_benchmark,
    run_program,
    skipped,
)

from oracle.grid import Case, Judgement, Tally, full_grid
from oracle.package import ROADS, judge_case


def _judged(case: Case) -> tuple[Case, dict[str, Judgement]]:
    torch.set_num_threads(1)
    return case, judge_case(case, ROADS)


def _judged_grid(workers: int) -> Iterator[tuple[Case, dict[str, Judgement]]]:
    grid = list(full_grid())
    # Slow cases first, so that no worker is left alone with them at the end.
    grid.sort(key=lambda case: -case.m)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_judged, grid, chunksize=8)


@check(
    "distributions.accuracy",
    "quantile and gradient against 50-digit arithmetic, on every code path",
)
def fifty_digits(options: Options) -> Result:
    tally = Tally()
    cases = gaps = 0
    for case, judgements in _judged_grid(options.workers):
        cases += 1
        gaps += any(j.in_gap for j in judgements.values())
        for road, judgement in judgements.items():
            tally.add(case, judgement, f" ({road})")
    return passed(
        not tally.failures,
        f"{tally}; {len(tally.failures)} failures in {cases} cases × {len(ROADS)} code paths, "
        f"{gaps} cases in gaps",
        worst=tally.worst,
        failures=tally.failures,
        cases=cases,
    )


@check("distributions.bandwidths", "the figures of the bandwidth study in docs/ are up to date")
def bandwidth_study(options: Options) -> Result:
    command = [sys.executable, "benchmarks/bandwidth_study.py", "--check"]
    finished = run_program(
        options, "bandwidth_study", command, package_environment(OMP_NUM_THREADS="1")
    )
    return passed(finished.code == 0, finished.last_lines())


def _bounds(options: Options, *parts: str) -> Result:
    """The bounds of benchmarks/quantile.py on some of what it measures."""
    finished, content = run_benchmark(options, "quantile", "--parts", *parts)
    verdicts: list[dict[str, Any]] = content["verdicts"]  # type: ignore[assignment]
    measured = [each for each in verdicts if each["worst"] is not None]
    holds = finished.code == 0 and bool(measured) and all(each["passed"] for each in measured)
    lines = [f"{each['bound']}: {each['worst']:.3g}" for each in measured]
    return passed(holds, "; ".join(lines), verdicts=measured)


@check("distributions.speed", "speed against the published bisection and the mean", alone=True)
def speed(options: Options) -> Result:
    return _bounds(options, "sizes")


@check("distributions.rules", "speed of the bandwidth rules, in processor time")
def rules(options: Options) -> Result:
    return _bounds(options, "rules")


@check("distributions.memory", "extra memory of the quantile, up to ten million risks")
def memory(options: Options) -> Result:
    return _bounds(options, "memory")


@check("distributions.cuda", "CUDA: no synchronisation, graphs, torch.compile, agreement with CPU")
def cuda(options: Options) -> Result:
    if not torch.cuda.is_available():
        return skipped("no CUDA device; docs/cuda.md has the output of the last run on one")
    command = [sys.executable, "benchmarks/cuda_quantile.py", "--output", str(options.output)]
    finished = run_program(options, "cuda_quantile", command)
    content = json.loads((options.output / "cuda_quantile.json").read_text())
    failed = [each["name"] for each in content["checks"] if not each["passed"]]
    return passed(
        finished.code == 0,
        f"{len(content['checks'])} checks on {content['machine']['device']}, failed: {failed}",
    )
