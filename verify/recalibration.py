"""Recalibration at full size: ten million rows, against an independent optimum."""

from __future__ import annotations

from verify.registry import Options, Result, check, passed, run_benchmark


@check(
    "recalibration.large-files",
    "eqrm recalibrate: ten million rows in 60 s and 2 GB, within 1e-4 of the optimum on all rows",
    alone=True,
)
def large_files(options: Options) -> Result:
    finished, content = run_benchmark(options, "recalibrate_large")
    runs: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    times = "; ".join(
        f"{run['name']}: {run['seconds']:.1f} s ({run['cpu_seconds']:.1f} s of processors), "
        f"{run['gigabytes']:.2f} GB"
        for run in runs
    )
    return passed(
        finished.code == 0, f"{times}; objective {content['excess']:+.0e} of scipy's", **content
    )
