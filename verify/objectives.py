"""The objectives at full size, and how checks run tests and benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import torch
from verify.registry import ROOT, Options, Result, check, package_environment, passed, skipped

TESTS = "tests/objectives"


@dataclass(frozen=True)
class Counts:
    """What a run of pytest found."""

    passed: int
    failed: int
    skipped: int
    log: Path

    def result(self, what: str) -> Result:
        """PASS when nothing failed and something ran."""
        return passed(
            self.failed == 0 and self.passed > 0,
            f"{what}: {self.passed} tests passed, {self.failed} failed, "
            f"{self.skipped} skipped; log in {self.log}",
        )


def run_tests(options: Options, name: str, *arguments: str) -> Counts:
    """Run pytest, slow tests included, and count."""
    log, report = options.output / f"{name}.log", options.output / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
    command += ["-n", str(options.workers), "--dist", "loadgroup", "-m", "slow or not slow"]
    with log.open("w") as stream:
        subprocess.run(
            [*command, f"--junit-xml={report}", *arguments],
            cwd=ROOT,
            env=package_environment(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"),
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not report.exists():
        raise RuntimeError(f"pytest did not finish; see {log}")
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        totals = {key: value + int(suite.get(key, 0)) for key, value in totals.items()}
    failed = totals["failures"] + totals["errors"]
    return Counts(totals["tests"] - failed - totals["skipped"], failed, totals["skipped"], log)


def run_benchmark(options: Options, name: str) -> tuple[int, dict[str, object]]:
    """Run a benchmark at full size; its exit code and what it wrote."""
    path, log = options.output / f"{name}.json", options.output / f"{name}.log"
    path.unlink(missing_ok=True)
    with log.open("w") as stream:
        finished = subprocess.run(
            [sys.executable, f"benchmarks/{name}.py", "--json", str(path)],
            cwd=ROOT,
            env=package_environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not path.exists():
        raise RuntimeError(f"benchmarks/{name}.py did not finish; see {log}")
    return finished.returncode, json.loads(path.read_text())


@check("objectives.independent", "each objective against something independent; warnings")
def independent_checks(options: Options) -> Result:
    shared = ("conformance", "across_processes", "everywhere", "paper_relations")
    ignored = [f"--ignore={TESTS}/test_{name}.py" for name in shared]
    counts = run_tests(options, "objectives-independent", TESTS, *ignored)
    return counts.result("closed forms, hand-computed cases, finite differences, properties")


@check("objectives.paper", "the paper's relations: VREx, α = ½, α → 1, Propositions A.4 and A.5")
def paper_relations(options: Options) -> Result:
    counts = run_tests(options, "objectives-paper", f"{TESTS}/test_paper_relations.py")
    return counts.result("value at β = m·z/σ̂, gradient at half of it; minimisers, paths, limits")


@check("objectives.everywhere", "the one line: autocast, torch.compile, accumulation, 2 processes")
def everywhere(options: Options) -> Result:
    paths = [f"{TESTS}/test_everywhere.py", f"{TESTS}/test_across_processes.py"]
    counts = run_tests(
        options, "objectives-everywhere", *paths, f"{TESTS}/test_page.py", "-k", "not CUDA"
    )
    return counts.result("20 steps of 2 processes to 1e-6 and 1e-10; documented accumulation")


@check("objectives.cuda", "the one line on CUDA: agreement, no waiting, graphs, torch.compile")
def on_cuda(options: Options) -> Result:
    if not torch.cuda.is_available():
        return skipped("no CUDA device here; the last run on one is recorded in docs/objectives.md")
    counts = run_tests(options, "objectives-cuda", TESTS, "-k", "CUDA or cuda")
    return counts.result(torch.cuda.get_device_name())


@check("objectives.conformance", "50 steps on 1, 2 and 5 domains, unequal batches, every variant")
def conformance(options: Options) -> Result:
    counts = run_tests(options, "objectives-conformance", f"{TESTS}/test_conformance.py")
    return counts.result("all objectives of the registry, and variants")


@check("objectives.many-domains", "the memory's quantile and gradient, and what is learned")
def many_domains(options: Options) -> Result:
    code, content = run_benchmark(options, "many_domains")
    verdicts: list[dict[str, object]] = content["verdicts"]  # type: ignore[assignment]
    failed = [f"{v['claim']}: {v['measured']}" for v in verdicts if not v["holds"]]
    summary = f"{len(verdicts) - len(failed)} of {len(verdicts)} claims hold"
    return passed(code == 0, "; ".join([summary, *failed]), verdicts=verdicts)


@check("objectives.quadratic-worlds", "exact EQRM ends at or below ERM and the published gradient")
def quadratic_worlds(options: Options) -> Result:
    code, content = run_benchmark(options, "quadratic_worlds")
    rows: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    ends = ", ".join(
        f"m={row['domains']} α={row['alpha']:g}: "
        f"{row['erm']:.3f}/{row['published']:.3f}/{row['exact']:.3f}"
        for row in rows
    )
    return passed(code == 0, f"mean end quantile of ERM/published/exact {ends}", **content)


@check("objectives.step-cost", "EQRM's step costs at most 1.05 ERM steps")
def step_cost(options: Options) -> Result:
    code, content = run_benchmark(options, "step_cost")
    rows: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    ratios = "; ".join(
        f"{row['examples']} examples of {row['domains']} domains: {row['ratio']:.3f} "
        f"({row['ratio_without_noise']:.4f} by the objectives' own times)"
        for row in rows
    )
    return passed(code == 0, ratios, **content)
