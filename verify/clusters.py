"""Sweeps on SLURM and Ray: the same records as on one machine, whatever is lost in the middle."""

from __future__ import annotations

from verify.registry import Options, Result, check, run_tests


@check(
    "sweeps.clusters",
    "SLURM and Ray, two nodes each: the records and tables of one machine",
    waits=True,
)
def clusters(options: Options) -> Result:
    return run_tests(options, "clusters", "tests/sweeps/engines", "-m", "cluster")
