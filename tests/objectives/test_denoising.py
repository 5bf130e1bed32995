"""The gradient of shrunk risks: that in NumPy against autograd, with V solved for exactly."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eqrm.between_domains import BINS
from eqrm.objectives.denoising import LEAST_RATIO, _shrunk, denoised

Given = tuple[Tensor, Tensor, Tensor]


def world(domains: int, spread: float, seed: int = 0) -> Given:
    """Risks, sampling variances from .01 to .14, and weights, one of which is 0."""
    draw = torch.Generator().manual_seed(seed)
    normal = torch.randn((2, domains), generator=draw, dtype=torch.float64)
    uniform = torch.rand((2, domains), generator=draw, dtype=torch.float64)
    variances = torch.exp(2.6 * uniform[0] - 4.6)
    weights = torch.where(torch.arange(domains) == 1, 0.0, 0.5 + uniform[1])
    risks = 2.0 + spread * normal[0] + variances.sqrt() * normal[1]
    return risks.requires_grad_(), variances.requires_grad_(), weights / weights.sum()


def score(variance: Tensor, risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """Twice ℓ'(V), by autograd from the restricted likelihood as it is written down."""
    number = 1.0 / (weights * weights).sum()
    total = variance + variances
    precision = (weights / total).sum()
    mean = (weights * risks / total).sum() / precision
    squares = (weights * (risks - mean) ** 2 / total).sum()
    likelihood = -number * ((weights * total.log()).sum() + squares) - precision.log()
    return torch.autograd.grad(likelihood, variance, create_graph=True)[0]


def shrunk_by_autograd(risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """By bisection and a differentiable Newton step; V is at least what typical noise leaves."""
    low, high = 1e-12, 4.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        variance = torch.tensor(middle, dtype=torch.float64, requires_grad=True)
        value = score(variance, risks, variances, weights)
        low, high = (middle, high) if value > 0.0 else (low, middle)
    (slope,) = torch.autograd.grad(value, variance, retain_graph=True)
    stepped = variance - value / slope.detach()
    positive = torch.where(variance > 1e-9, stepped, 0.0)
    precisions = weights / (variances + variance.detach())
    typical = (precisions.detach() * variances).sum() / precisions.detach().sum()
    spread = torch.maximum(positive, LEAST_RATIO * typical)
    precisions = weights / (variances + positive)
    mean = (precisions * risks).sum() / precisions.sum()
    return mean + (spread / (spread + variances)).sqrt() * (risks - mean)


def weighted_squares(risks: Tensor, weights: Tensor | None) -> Tensor:
    """Something whose slopes differ between domains."""
    assert weights is not None
    return (weights * (risks + risks**2 * torch.linspace(0.0, 1.0, len(risks)))).sum()


@pytest.mark.parametrize("domains", [8, 60, 4 * BINS])
@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_value_and_gradient_are_those_of_autograd(domains: int, spread: float) -> None:
    """Also where V is less than the least, which then decides."""
    given = world(domains, spread)
    ours = denoised(weighted_squares, *given)
    truth = weighted_squares(shrunk_by_autograd(*given), given[2])
    assert ours.item() == pytest.approx(truth.item(), rel=1e-12)
    pairs = zip(*(torch.autograd.grad(value, given[:2]) for value in (ours, truth)), strict=True)
    for own, other in pairs:
        assert float((own - other).abs().max()) <= 1e-10 * float(other.abs().max())


def test_second_derivatives_are_those_of_differentiable_operations() -> None:
    risks, variances, weights = world(6, 0.5)

    def seconds(value: Tensor) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(value, (risks, variances), create_graph=True)
        return torch.autograd.grad(sum((s**2).sum() for s in slopes), (risks, variances))

    composed = _shrunk(torch, risks, variances, weights)[0]
    expected = seconds(weighted_squares(composed, weights))
    found = seconds(denoised(weighted_squares, risks, variances, weights))
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-7, atol=1e-9)


def test_domains_without_noise_stay_where_they_are() -> None:
    risks = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    variances = torch.tensor([0.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    first = denoised(lambda shrunk, _: shrunk[0], risks, variances, third)
    assert first.item() == 1.0
    by_risks, by_variances = torch.autograd.grad(first, (risks, variances))
    assert by_risks.tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-15)
    assert by_variances.tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)
