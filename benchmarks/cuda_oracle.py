"""The quantile on a CUDA device against 50-digit arithmetic, on the whole grid of the tests.

    PYTHONPATH=src:tests python3 benchmarks/cuda_oracle.py [--workers 16] [--sample 10]

Every case of ``tests/oracle/grid.py``: the truth by mpmath on the CPU, in several processes; value
and gradient by the kernels on the device, in float64. Prints a line, and
exits with 1 if a case fails. ``--sample 10`` takes every tenth case.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from tables import machine

from oracle.grid import Case, Tally, full_grid, judge
from oracle.kde_mpmath import KdeTruth
from oracle.package import quantile_and_gradient


def truth_of(case: Case) -> KdeTruth:
    """In a process of its own."""
    return case.truth()


def main(arguments: list[str]) -> int:
    """Judge and print; 1 when a case fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=16, help="processes for the truth")
    parser.add_argument("--sample", type=int, default=1, help="take every so many-th case")
    parser.add_argument("--device", default="cuda", help="'cpu' tries the script without CUDA")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device is available; --device cpu tries the script without one")
        return 2
    grid = sorted(full_grid(), key=lambda case: -case.m)[:: options.sample]
    road = "gpu" if options.device == "cuda" else "one row"
    tally, gaps = Tally(), 0
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for case, truth in zip(grid, pool.map(truth_of, grid, chunksize=4), strict=True):
            found = judge(truth, *quantile_and_gradient(case, road))
            tally.add(case, found)
            gaps += found.in_gap
    here = machine()["device"] if options.device == "cuda" else "cpu"
    failed = len(tally.failures)
    line = f"{here}: {tally}; {failed} failures in {len(grid)} cases, {gaps} in gaps"
    print("\n".join([*tally.failures[:20], line]))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
