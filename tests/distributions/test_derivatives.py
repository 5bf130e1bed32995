"""First and second derivatives of every distribution × bandwidth by finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import eqrm
from cases import in_full
from oracle.catalogue import (
    DISTRIBUTIONS,
    LEVELS,
    distinct_risks,
    unequal_weights,
)

SOME_LEVELS = ["0.9", "1-e^-100"]
OTHER_LEVELS = [level for level in LEVELS if level not in SOME_LEVELS]


@pytest.mark.unmeasured
@pytest.mark.parametrize("level", [*SOME_LEVELS, *in_full(*OTHER_LEVELS)])
@pytest.mark.parametrize("m", [6, *in_full(2, 3, 15)])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("weighted", [True, *in_full(False)], ids=["weighted", "equal"])
def test_first_and_second_derivatives_match_finite_differences(
    name: str, level: str, m: int, weighted: bool
) -> None:
    risks = distinct_risks(m).requires_grad_()
    weights = unequal_weights(m) if weighted else None

    def quantile(r: Tensor) -> Tensor:
        return DISTRIBUTIONS[name](r, weights=weights).quantile(LEVELS[level])

    assert torch.autograd.gradcheck(quantile, (risks,))
    assert torch.autograd.gradgradcheck(quantile, (risks,))


@pytest.mark.parametrize("level", ["0.9", *in_full("0.1", "1-e^-100")])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_derivatives_hold_in_batches_and_for_superquantiles(name: str, level: str) -> None:
    risks = torch.stack([distinct_risks(5), distinct_risks(5).flip(0) * 1.5]).requires_grad_()

    def both(r: Tensor) -> Tensor:
        estimate = DISTRIBUTIONS[name](r)
        return torch.stack(
            [estimate.quantile(LEVELS[level]), estimate.superquantile(LEVELS[level])]
        )

    assert torch.autograd.gradcheck(both, (risks,))
    assert torch.autograd.gradgradcheck(both, (risks,), fast_mode=True)


@pytest.mark.parametrize("rows", [(6,), (2, 6)], ids=["row", "batch"])
@pytest.mark.parametrize("moving", ["risks", "bandwidth", "both"])
def test_a_bandwidth_may_have_parameters_of_its_own(rows: tuple[int, ...], moving: str) -> None:
    """A user's function of the risks and of something that is trained with them."""
    generator = torch.Generator().manual_seed(0)
    risks = torch.rand(rows, dtype=torch.float64, generator=generator)
    risks.requires_grad_(moving != "bandwidth")
    scale = torch.tensor(0.4, dtype=torch.float64, requires_grad=moving != "risks")

    def quantile(r: Tensor, s: Tensor) -> Tensor:
        return eqrm.KDE(r, bandwidth=lambda x, p: s * (p * x).sum(-1)).quantile(0.8)

    assert torch.autograd.gradcheck(quantile, (risks, scale))
    assert torch.autograd.gradgradcheck(quantile, (risks, scale))
