"""The kernels of GPUs in Triton's interpreter; benchmarks/cuda_quantile.py has a device."""

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


def errors_of(*options: str, program: str = "interpreted_kernels") -> dict[str, float]:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    paths = [str(TESTS), str(TESTS.parent / "src"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", f"oracle.{program}", *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["case"]: line["error"] for line in lines}


@NEEDS_TRITON
def test_kernels_compute_what_the_cpu_does() -> None:
    errors = errors_of()
    assert len(errors) > 30
    assert {case: error for case, error in errors.items() if not error < 1e-11} == {}


@NEEDS_TRITON
@pytest.mark.full
def test_kernels_compute_what_the_cpu_does_for_all_laws_and_sizes() -> None:
    errors = errors_of("--all")
    assert {case: error for case, error in errors.items() if not error < 1e-11} == {}


@NEEDS_TRITON
def test_norms_with_fixed_statistics_are_those_of_torch() -> None:
    errors = errors_of(program="interpreted_norms")
    assert len(errors) == 12
    assert {case: error for case, error in errors.items() if not error < 5e-6} == {}
