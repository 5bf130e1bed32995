"""The list of checks: one per must-hold item, filled by the modules beside this file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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
    """One must-hold item: ``number`` is the issue and the item, as in 2.3."""

    number: str
    title: str
    run: Run


CHECKS: list[Check] = []


def check(number: str, title: str) -> Callable[[Run], Run]:
    """Register a function as a check."""

    def register(run: Run) -> Run:
        CHECKS.append(Check(number, title, run))
        return run

    return register


def plain_environment(**changes: str) -> dict[str, str]:
    """The environment without what this process's own set-up put there."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    return {**kept, **changes}


def package_environment(**changes: str) -> dict[str, str]:
    """The environment in which this checkout's package and tests can be imported."""
    paths = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "benchmarks")]
    return plain_environment(PYTHONPATH=os.pathsep.join(paths), **changes)
