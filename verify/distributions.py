"""The risk distributions at full size: accuracy, bandwidth rules, speed, CUDA."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from verify.benchmarks import run_benchmark
from verify.registry import (
    Options,
    Result,
    check,
    package_environment,
    passed,
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


@check("distributions.cuda", "CUDA: no synchronisation, graphs, torch.compile, agreement with CPU")
def cuda(options: Options) -> Result:
    if not torch.cuda.is_available():
        return skipped("no CUDA device; docs/cuda.md has the output of the last run on one")
    return run_benchmark(options, "cuda_quantile")
