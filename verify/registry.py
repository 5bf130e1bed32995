"""The list of checks, filled by the modules beside this file, and how checks run programs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eqrm.text import counted

ROOT = Path(__file__).resolve().parents[1]
THREADS = "EQRM_VERIFY_THREADS"
"""Set for checks that share the machine: how many threads the programs they start may use."""


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    workers: int = 2
    clean_clone: bool = False
    output: Path = ROOT / "verify-output"


@dataclass(frozen=True)
class Result:
    """PASS, FAIL or SKIP, a sentence with the worst numbers, and everything else for the JSON."""

    status: str
    summary: str
    details: dict[str, object] = field(default_factory=dict)


def passed(condition: bool, summary: str, **details: object) -> Result:
    """PASS if the condition holds, else FAIL."""
    return Result("PASS" if condition else "FAIL", summary, details)


def skipped(reason: str) -> Result:
    """SKIP, with the reason."""
    return Result("SKIP", reason)


Run = Callable[[Options], Result]


@dataclass(frozen=True)
class Check:
    """One check: ``name`` is the capability and what is checked of it.

    One that is to run ``alone`` measures time, or uses all cores by itself. A ``long`` one takes
    more than an hour and runs only when it is asked for. One that ``waits`` does so most of its
    time, for other processes or the disk, and leaves the processors to others.
    """

    name: str
    title: str
    run: Run
    alone: bool = False
    long: bool = False
    waits: bool = False


CHECKS: list[Check] = []


def check(
    name: str, title: str, *, alone: bool = False, long: bool = False, waits: bool = False
) -> Callable[[Run], Run]:
    """Register a function as a check."""

    def register(run: Run) -> Run:
        CHECKS.append(Check(name, title, run, alone, long, waits))
        return run

    return register


def plain_environment(**changes: str) -> dict[str, str]:
    """The environment without the variables that set up this process."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    return {**kept, **changes}


def package_environment(**changes: str) -> dict[str, str]:
    """The environment in which the package and the tests of this checkout can be imported."""
    paths = [str(ROOT / "src"), str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]
    threads = os.environ.get(THREADS)
    given = {"OMP_NUM_THREADS": threads} if threads else {}
    return plain_environment(**{**given, "PYTHONPATH": os.pathsep.join(paths), **changes})


def spent_by_children() -> float:
    """Seconds of processor time of all programs that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Finished:
    """A program that has ended."""

    code: int
    seconds: float
    log: Path

    def last_lines(self, count: int = 1) -> str:
        """The end of what it printed."""
        return " | ".join(self.log.read_text().strip().splitlines()[-count:]) or "no output"


def run_program(
    options: Options,
    name: str,
    command: list[str],
    environment: dict[str, str] | None = None,
    folder: Path = ROOT,
) -> Finished:
    """Run a program to its end; what it prints goes to ``NAME.log`` in the output folder."""
    log = options.output / f"{name}.log"
    start = time.perf_counter()
    with log.open("w") as stream:
        finished = subprocess.run(
            command,
            cwd=folder,
            env=environment or package_environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return Finished(finished.returncode, time.perf_counter() - start, log)


def answer_of(options: Options, name: str, module: str, *arguments: str, threads: int = 1) -> str:
    """The last line that a program of the tests prints; it must end well."""
    number = str(threads)
    environment = package_environment(OMP_NUM_THREADS=number, MKL_NUM_THREADS=number)
    finished = run_program(options, name, [sys.executable, "-m", module, *arguments], environment)
    if finished.code:
        raise RuntimeError(f"{name}: {finished.last_lines()}; see {finished.log}")
    return finished.last_lines()


def run_tests(
    options: Options, name: str, *arguments: str, libraries: Path | None = None
) -> Result:
    """Run pytest; PASS when nothing failed and something ran, SKIP when all tests were skipped.

    ``libraries`` is a folder of packages that are taken in place of the installed ones.
    """
    report = options.output / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
    shared = options.workers if options.workers > 1 else 0  # one worker is this process itself
    command += ["-n", str(shared), "--dist", "loadgroup", f"--junit-xml={report}"]
    environment = package_environment(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    if libraries is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(libraries), environment["PYTHONPATH"]])
    finished = run_program(options, name, [*command, *arguments], environment)
    if not report.exists():
        raise RuntimeError(f"pytest did not finish; see {finished.log}")
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    tests, failures, errors, left_out = (
        sum(int(suite.get(key, 0)) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    if finished.code == 0 and tests == left_out:
        reasons = {each.get("message", "") for suite in suites for each in suite.iter("skipped")}
        return skipped("; ".join(sorted(reasons)))
    return passed(
        finished.code == 0,
        f"{counted(tests - failed - left_out, 'test')} passed, {failed} failed, {left_out} "
        "skipped; "
        f"log in {finished.log}",
        tests=tests,
    )
