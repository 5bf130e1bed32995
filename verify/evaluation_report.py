"""Issue 5, the report: opened in a browser, the same from a table per domain, on real data."""

from __future__ import annotations

from verify.objectives import run_tests
from verify.registry import Options, Result, check

TESTS = "tests/evaluation"


@check("5.4.report", "the table per domain gives the same report as the rows; size and escaping")
def report_file(options: Options) -> Result:
    return run_tests(options, "report-file", f"{TESTS}/report/test_report_file.py").result(
        "the file itself"
    )


@check("5.6", "the report in headless Chromium: slider, sorting, hostile names, no request")
def report_in_browser(options: Options) -> Result:
    path = f"{TESTS}/report/test_report_in_browser.py"
    return run_tests(options, "report-in-browser", path).result("skipped without Chromium")


@check("5.8", "the tour on real data prints what its page says")
def tour(options: Options) -> Result:
    path = "tests/examples/test_evaluation_tour.py"
    return run_tests(options, "evaluation-tour", path).result("flights")
