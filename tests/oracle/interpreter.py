"""Programs of this package run with Triton's interpreter, which is chosen before the import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
NEEDS_TRITON = pytest.mark.skipif(
    find_spec("triton") is None,
    reason="triton is not installed: 'pip install triton' (Linux only) lets these tests run",
)


ALL_IN_ONE_PROCESS = pytest.mark.xdist_group("interpreter")  # which quick cases then start once
PROGRAMS = tuple(f"oracle.interpreted_{what}" for what in ("kernels", "norms"))
RUN_ALL = """
import json, runpy, sys
programs, sys.argv[1:] = sys.argv[1:], []
for program in programs:
    print(json.dumps({"program": program}))
    runpy.run_module(program, run_name="__main__")
"""


def errors_of(program: str, *options: str) -> dict[str, float]:
    """The errors by case that a program prints, one line of JSON each."""
    return _by_case(_printed("-m", program, *options))


@cache
def quick_errors() -> dict[str, dict[str, float]]:
    """The errors of each program without options; one process, since its imports take seconds."""
    found = _printed("-c", RUN_ALL, *PROGRAMS)
    starts = [number for number, line in enumerate(found) if "program" in line]
    return {
        found[start]["program"]: _by_case(found[start + 1 : end])
        for start, end in zip(starts, [*starts[1:], len(found)], strict=True)
    }


def _by_case(lines: list[dict[str, Any]]) -> dict[str, float]:
    return {line["case"]: line["error"] for line in lines}


def _printed(*arguments: str) -> list[dict[str, Any]]:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    paths = [str(TESTS), str(TESTS.parent / "src"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
