"""Programs of this package run with Triton's interpreter, which is chosen before the import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NEEDS_TRITON = pytest.mark.skipif(
    find_spec("triton") is None,
    reason="triton is not installed: 'pip install triton' (Linux only) lets these tests run",
)


def errors_of(program: str, *options: str) -> dict[str, float]:
    """The errors by case that a program prints, one line of JSON each."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    paths = [str(TESTS), str(TESTS.parent / "src"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", program, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["case"]: line["error"] for line in lines}
