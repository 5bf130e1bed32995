"""Sweeps at full size: what they cost beside their runs, and tables of 10,000 runs."""

from __future__ import annotations

from verify.registry import Options, Result, check, passed, run_benchmark


@check(
    "sweeps.overhead",
    "40 runs of 10 s: the sweep costs at most 5% of the runs' own time",
    alone=True,
)
def overhead(options: Options) -> Result:
    finished, _ = run_benchmark(options, "sweep_overhead")
    return passed(finished.code == 0, finished.last_lines())


@check(
    "sweeps.tables",
    "10,000 finished runs are tabulated in at most 10 s of processor time",
    alone=True,
)
def tables(options: Options) -> Result:
    finished, _ = run_benchmark(options, "sweep_tables")
    return passed(finished.code == 0, finished.last_lines())
