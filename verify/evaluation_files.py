"""Issue 5, evaluation of any model's predictions: input, risk table, large files, refusals."""

from __future__ import annotations

from verify.objectives import run_benchmark, run_tests
from verify.registry import Options, Result, check, passed

TESTS = "tests/evaluation"


@check("5.3", "100 million rows in 15 s and 1 GB, a billion in 90 s; the same answer as pandas")
def large_files(options: Options) -> Result:
    code, content = run_benchmark(options, "evaluate_large")
    runs: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    times = "; ".join(
        f"{run['name']} {run['rows']:,} rows: {run['seconds']:.1f} s, {run['gigabytes']:.2f} GB"
        for run in runs
    )
    return passed(code == 0, f"{times}; difference {content['difference']:.0e}", **content)


@check("5.4", "the table per domain gives the same evaluation and output as the rows")
def aggregated(options: Options) -> Result:
    paths = [f"{TESTS}/test_evaluate.py", "tests/cli/test_evaluate.py"]
    counts = run_tests(options, "evaluation-aggregated", *paths, "-k", "table_per or aggregated")
    return counts.result("arrays, frames, CSV and Parquet; the command's output")


@check("5.7", "what cannot be used is refused with rows or domains; nothing half-written")
def refusals(options: Options) -> Result:
    paths = [f"{TESTS}/test_refusals.py", "tests/cli/test_evaluate.py"]
    return run_tests(options, "evaluation-refusals", *paths).result("every route and the command")


@check("5.input", "every way in against pandas; the risk table; batches and two processes")
def ways_in(options: Options) -> Result:
    names = ("evaluate", "risk_table", "accumulator", "evaluation")
    paths = [f"{TESTS}/test_{name}.py" for name in names]
    return run_tests(options, "evaluation-input", *paths).result("values, intervals and formats")
