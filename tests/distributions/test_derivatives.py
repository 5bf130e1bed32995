"""First and second derivatives of every distribution × bandwidth × level by finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracle.catalogue import DISTRIBUTIONS, LEVELS, distinct_risks, unequal_weights


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_first_and_second_derivatives_match_finite_differences(
    name: str, level: str, weighted: bool
) -> None:
    risks = distinct_risks().requires_grad_()
    weights = unequal_weights() if weighted else None

    def quantile(r: Tensor) -> Tensor:
        return DISTRIBUTIONS[name](r, weights=weights).quantile(LEVELS[level])

    assert torch.autograd.gradcheck(quantile, (risks,))
    assert torch.autograd.gradgradcheck(quantile, (risks,))


@pytest.mark.parametrize("level", ["0.1", "0.5", "0.9", "1-e^-100"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_derivatives_hold_in_batches_and_for_superquantiles(name: str, level: str) -> None:
    risks = torch.stack([distinct_risks(5), distinct_risks(5).flip(0) * 1.5]).requires_grad_()

    def both(r: Tensor) -> Tensor:
        estimate = DISTRIBUTIONS[name](r)
        return torch.stack(
            [estimate.quantile(LEVELS[level]), estimate.superquantile(LEVELS[level])]
        )

    assert torch.autograd.gradcheck(both, (risks,))
    assert torch.autograd.gradgradcheck(both, (risks,))
