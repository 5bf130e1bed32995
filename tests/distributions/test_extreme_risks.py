"""Risks at the ends of what floats can hold: right numbers or a refusal, on every road."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest import mock

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import log_ndtr, logsumexp
from torch import Tensor

import eqrm
from eqrm.distributions import LogNormal
from eqrm.distributions.kde import native
from eqrm.distributions.order_statistics import median_distance, row_median_distance
from eqrm.errors import DomainDataError
from oracle.catalogue import BANDWIDTHS

ROADS = ("C", "numpy", "batch")
TINY = torch.tensor(0.0, dtype=torch.float64).nextafter(torch.tensor(1.0, dtype=torch.float64))


def _solved(road: str, risks: Tensor, level: eqrm.Level, **options: object) -> tuple[float, Tensor]:
    leaf = risks.clone().requires_grad_()
    with mock.patch.object(native, "LIBRARY", None if road == "numpy" else native.LIBRARY):
        rows = leaf[None] if road == "batch" else leaf
        value = eqrm.KDE(rows, **options).quantile(level).sum()  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(value, leaf)
    return value.item(), gradient


@pytest.mark.parametrize(
    "view",
    [lambda r: r.T, lambda r: r.T[:, ::2], lambda r: r.T.flip(0)],
    ids=["T", "steps", "flip"],
)
@pytest.mark.parametrize("values", ["two", "tied", "distinct"])
def test_the_median_bandwidth_reads_risks_wherever_they_lie_in_memory(
    values: str, view: Callable[[Tensor], Tensor]
) -> None:
    """It read beyond the row: an IndexError, or a median of numbers that are not risks."""
    generator = torch.Generator().manual_seed(0)
    distinct = torch.randn(80, 3, dtype=torch.float64, generator=generator)
    rows = {"two": distinct.sign(), "tied": distinct.round(), "distinct": distinct}[values]
    strided = view(rows)
    expected = eqrm.KDE(strided.contiguous(), "median").bandwidth
    found = eqrm.KDE(strided, "median").bandwidth
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0.0)
    torch.testing.assert_close(
        eqrm.KDE(strided, "median").quantile(0.9),
        torch.stack([eqrm.KDE(row.contiguous(), "median").quantile(0.9) for row in strided]),
        rtol=1e-12,
        atol=0.0,
    )


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_denormal_risks_have_the_gradient_of_the_same_risks_in_other_units(
    bandwidth: str, road: str
) -> None:
    whole = torch.tensor([0.0, 8.0, 24.0, 56.0, 64.0], dtype=torch.float64)
    for level in (eqrm.Level(0.9), eqrm.Level(0.2), eqrm.Level(log_tail=-1000.0)):
        value, gradient = _solved(road, whole * TINY, level, bandwidth=bandwidth)
        expected, expected_gradient = _solved(road, whole, level, bandwidth=bandwidth)
        assert value / float(TINY) == pytest.approx(expected, abs=0.6 * abs(level.z) + 0.6)
        assert gradient.isfinite().all()
        assert float(gradient.sum()) == pytest.approx(1.0)
        if road != "batch":  # where a rule without σ̂ rounds the bandwidth to whole units
            atol = 0.1 * abs(level.z)
            torch.testing.assert_close(gradient, expected_gradient, rtol=0.1, atol=atol)


@pytest.mark.parametrize("road", ROADS)
def test_narrow_kernels_keep_the_digits_of_risks_far_from_the_mean(road: str) -> None:
    """Differences to the mean are rounded to more than the bandwidth; those to a risk are not."""
    cluster = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    risks = torch.cat([cluster, torch.tensor([1e40], dtype=torch.float64)])
    level = eqrm.Level(0.375)
    value, gradient = _solved(road, risks, level, bandwidth=0.5)
    expected, expected_gradient = _solved(road, cluster, eqrm.Level(0.5), bandwidth=0.5)
    assert value == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(gradient[:3], expected_gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"gradient": "bisection"}])
def test_what_is_too_large_is_refused(options: dict[str, str]) -> None:
    level = eqrm.Level(log_tail=-1e30)
    huge = torch.tensor([1e300, 1.5e308], dtype=torch.float64)
    with pytest.raises(DomainDataError, match=r"too large for torch\.float64"):
        eqrm.KDE(huge, **options).quantile(level)  # type: ignore[arg-type]
    with pytest.raises(DomainDataError, match=r"too large for torch\.float64"):
        eqrm.KDE(huge).superquantile(level)
    with pytest.raises(DomainDataError, match=r"too large for torch\.float32"):
        eqrm.KDE(torch.tensor([1e30, 3e38]), **options).quantile(level)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_a_gradient_that_is_too_large_for_its_dtype_is_refused(bandwidth: str, rows: bool) -> None:
    risks = torch.tensor([1e-4, 2e-4, 3e-4], dtype=torch.float16, requires_grad=True)
    level = eqrm.Level(log_tail=-1e14)
    with pytest.raises(DomainDataError, match="The gradient of the quantile is too large"):
        eqrm.KDE(risks[None] if rows else risks, bandwidth).quantile(level)
    assert eqrm.KDE(risks.detach(), bandwidth).quantile(level).isfinite()


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("bandwidth", [1e-30, 1e-60, 1e-100])
def test_beside_a_wide_gap_the_gradient_is_that_of_the_risk_which_makes_the_quantile(
    bandwidth: float, road: str
) -> None:
    """Halving a gap of so many bandwidths takes many steps."""
    risks = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64)
    value, gradient = _solved(road, risks, eqrm.Level(1.0 / 3.0 + 1e-13), bandwidth=bandwidth)
    assert value == 2.0
    assert gradient.tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)


@pytest.mark.parametrize("library", [native.LIBRARY, None], ids=["C", "numpy"])
def test_the_median_distance_beside_a_domain_that_has_almost_all_the_weight(
    library: object,
) -> None:
    risks, weights = torch.tensor([0.0, 1.0, 3.0]).double(), torch.tensor([1.0, 1e-20, 1e-20])
    weights = weights.double()
    with mock.patch.object(native, "LIBRARY", library):
        value, places, _ = row_median_distance(risks.numpy(), weights.numpy())
    assert value == float(median_distance(risks, weights)) == 2.0
    assert places.tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize("domains", [5, 40])
def test_distances_that_overflow_are_refused(domains: int) -> None:
    risks = torch.linspace(-1.0, 1.0, domains, dtype=torch.float64) * 1.7e308
    for given in (risks, risks[None]):
        for bandwidth in ("median", "silverman"):
            with pytest.raises(DomainDataError, match=r"too large|must be finite"):
                eqrm.KDE(given, bandwidth).quantile(0.9)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_far_in_the_tail_a_heavy_domain_counts_beside_the_largest_of_next_to_no_weight(
    road: str, sign: float
) -> None:
    """Kernels far below the largest were left out, whatever they weighed."""
    risks = sign * torch.tensor([0.0, 1.5], dtype=torch.float64)
    weights = torch.tensor([1.0, 1e-30], dtype=torch.float64)
    if sign > 0.0:
        level, target = eqrm.Level(log_tail=-1000.0), -1000.0
    else:
        level, target = eqrm.Level(1e-300), math.log(1e-300)
    value, gradient = _solved(road, risks, level, bandwidth=1.0, weights=weights)
    reached = logsumexp(np.log(weights.numpy()) + log_ndtr(sign * (risks.numpy() - value)))
    assert reached == pytest.approx(target, rel=1e-13)
    assert gradient[0] > 0.1


@pytest.mark.parametrize("log_tail", [-2.0, -1e3, -1e9, -1e15])
def test_the_superquantile_of_a_log_normal_law_has_its_digits_in_the_tail(log_tail: float) -> None:
    law = LogNormal(torch.tensor([0.3, 0.3 + 1e-6, 0.3 - 1e-6], dtype=torch.float64))
    level = eqrm.Level(log_tail=log_tail)
    z, std = mpmath.mpf(level.z), mpmath.mpf(law._logarithms.std.item())
    with mpmath.workdps(50):
        tail = mpmath.erfc((z - std) / mpmath.sqrt(2)) / mpmath.erfc(z / mpmath.sqrt(2))
        expected = tail * mpmath.exp(std**2 / 2 - z * std)
    ratio = law.superquantile(level).item() / law.quantile(level).item()
    assert ratio >= 1.0
    assert ratio == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("log_tail", [-1e6, -1e20, -1e30])
@pytest.mark.parametrize("bandwidth", ["gaussian-optimal", "silverman", "median", 1.0])
def test_deep_in_the_tail_a_superquantile_has_the_gradient_of_the_quantile(
    bandwidth: str | float, log_tail: float
) -> None:
    risks = torch.tensor([0.2, 0.5, 0.9, 0.4], dtype=torch.float64, requires_grad=True)
    law, level = eqrm.KDE(risks, bandwidth), eqrm.Level(log_tail=log_tail)
    (found,) = torch.autograd.grad(law.superquantile(level), risks)
    (expected,) = torch.autograd.grad(law.quantile(level), risks)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("law", [eqrm.Gaussian, LogNormal])
def test_a_gradient_that_is_not_finite_is_refused(law: type[eqrm.Gaussian]) -> None:
    risks = torch.tensor([1e294] * 6 + [1e300], dtype=torch.float64, requires_grad=True)
    quantile = law(risks, weights=[1.0] * 6 + [1e-30]).quantile(0.9)
    with pytest.raises(DomainDataError, match="gradient in the risks is too large"):
        quantile.backward()
