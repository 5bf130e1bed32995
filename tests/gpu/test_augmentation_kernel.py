"""The kernels that augment images, in Triton's interpreter."""

from __future__ import annotations

import pytest

from oracle.interpreter import ALL_IN_ONE_PROCESS, NEEDS_TRITON, errors_of, quick_errors

PROGRAM = "oracle.interpreted_augmentation"


@NEEDS_TRITON
@ALL_IN_ONE_PROCESS
def test_the_kernels_change_images_as_tensors_do() -> None:
    errors = quick_errors()[PROGRAM]
    assert len(errors) >= 15
    assert {case: error for case, error in errors.items() if not error < 5e-6} == {}


@NEEDS_TRITON
@pytest.mark.full
def test_the_kernels_change_images_as_tensors_do_for_more_seeds_and_larger_images() -> None:
    errors = errors_of(PROGRAM, "--all")
    assert {case: error for case, error in errors.items() if not error < 1e-5} == {}
