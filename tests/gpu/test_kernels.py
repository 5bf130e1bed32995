"""The kernels of GPUs in Triton's interpreter; benchmarks/cuda_quantile.py has a device."""

from __future__ import annotations

import pytest

from oracle.interpreter import ALL_IN_ONE_PROCESS, NEEDS_TRITON, errors_of, quick_errors

PROGRAM = "oracle.interpreted_kernels"
NORMS = "oracle.interpreted_norms"


@NEEDS_TRITON
@ALL_IN_ONE_PROCESS
def test_kernels_compute_what_the_cpu_does() -> None:
    errors = quick_errors()[PROGRAM]
    assert len(errors) > 30
    assert {case: error for case, error in errors.items() if not error < 1e-11} == {}


@NEEDS_TRITON
@pytest.mark.full
def test_kernels_compute_what_the_cpu_does_for_all_laws_and_sizes() -> None:
    errors = errors_of(PROGRAM, "--all")
    assert {case: error for case, error in errors.items() if not error < 1e-11} == {}


@NEEDS_TRITON
@ALL_IN_ONE_PROCESS
def test_norms_with_fixed_statistics_are_those_of_torch() -> None:
    errors = quick_errors()[NORMS]
    assert len(errors) == 11
    assert {case: error for case, error in errors.items() if not error < 5e-6} == {}


@NEEDS_TRITON
@pytest.mark.full
def test_norms_of_all_shapes_are_those_of_torch() -> None:
    errors = errors_of(NORMS, "--all")
    assert len(errors) == 20
    assert {case: error for case, error in errors.items() if not error < 5e-6} == {}
