"""Evaluation at full size: files of up to a billion rows."""

from __future__ import annotations

from verify.registry import Options, Result, check, passed, run_benchmark


@check(
    "evaluation.large-files",
    "100 million rows in 15 s and 1 GB, a billion in 90 s; agrees with pandas",
    alone=True,
)
def large_files(options: Options) -> Result:
    finished, content = run_benchmark(options, "evaluate_large")
    runs: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    times = "; ".join(
        f"{run['name']} {run['rows']:,} rows: {run['seconds']:.1f} s, {run['gigabytes']:.2f} GB"
        for run in runs
    )
    return passed(
        finished.code == 0, f"{times}; difference to pandas {content['difference']:.0e}", **content
    )
