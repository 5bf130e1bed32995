"""The kernels that augment images, in Triton's interpreter."""

from __future__ import annotations

import pytest

from oracle.interpreter import NEEDS_TRITON, errors_of


@NEEDS_TRITON
@pytest.mark.full
def test_the_kernels_change_images_as_tensors_do() -> None:
    errors = errors_of("oracle.interpreted_augmentation")
    assert len(errors) >= 65
    assert {case: error for case, error in errors.items() if not error < 1e-5} == {}
