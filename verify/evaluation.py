"""Evaluation at full size: coverage of certificates, large files, the report, the tour."""

from __future__ import annotations

from verify.objectives import run_benchmark, run_tests
from verify.registry import Options, Result, check, passed

TESTS = "tests/evaluation"


@check("evaluation.statistics", "certificates hold as often as stated in simulated worlds; noise")
def statistics(options: Options) -> Result:
    names = ("coverage", "noise", "order_statistics", "cdf_bands", "comparison", "true_risk")
    paths = [f"{TESTS}/test_{name}.py" for name in names]
    return run_tests(options, "evaluation-statistics", *paths).result(
        "2,000 worlds per law, size and level; scipy's laws; de-noising in 240 settings"
    )


@check("evaluation.input", "every way in gives the same numbers; what cannot be used is refused")
def ways_in(options: Options) -> Result:
    names = ("evaluate", "evaluation", "risk_table", "accumulator", "refusals", "odd_inputs")
    paths = [*(f"{TESTS}/test_{name}.py" for name in names), "tests/cli/test_evaluate.py"]
    return run_tests(options, "evaluation-input", *paths).result("arrays, frames, CSV, Parquet")


@check("evaluation.large-files", "100 million rows in 15 s and 1 GB, a billion in 90 s, as pandas")
def large_files(options: Options) -> Result:
    code, content = run_benchmark(options, "evaluate_large")
    runs: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    times = "; ".join(
        f"{run['name']} {run['rows']:,} rows: {run['seconds']:.1f} s, {run['gigabytes']:.2f} GB"
        for run in runs
    )
    return passed(code == 0, f"{times}; difference {content['difference']:.0e}", **content)


@check("evaluation.report", "the report: under 1 MB, names are text, works in headless Chromium")
def report(options: Options) -> Result:
    found = run_tests(options, "evaluation-report", f"{TESTS}/report")
    return found.result("the file, and the page in a browser (skipped without Chromium)")


@check("evaluation.tour", "the tour on real data prints what its page says")
def tour(options: Options) -> Result:
    path = "tests/examples/test_evaluation_tour.py"
    return run_tests(options, "evaluation-tour", path).result("flights")
