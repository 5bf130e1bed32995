"""Properties that hold for any risks, tried on generated ones (hypothesis).

The number of generated cases, here and in test_degenerate_risks.py, is the sum of the
``@cases(...)``: more than 1,000. ``make verify`` has a million vectors (tests/adversarial).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import eqrm
from oracle.catalogue import (
    DISTRIBUTIONS,
    distinct_risks,
)
from oracle.generated import (
    EQUIVARIANT_NAMES,
    LOG_TAIL,
    NAMES,
    RISK,
    RISKS,
    cases,
    spread_out,
)
from oracle.kde_scipy import NormalMixture
from oracle.package import value_and_gradient


@cases(200)
@given(name=EQUIVARIANT_NAMES, risks=RISKS, log_tail=LOG_TAIL)
def test_gradient_sums_to_one_and_weighs_the_risks_to_the_quantile(
    name: str, risks: list[float], log_tail: float
) -> None:
    """Location and scale equivariance, differentiated: sum g_i = 1, sum R_i g_i = q."""
    assume(spread_out(risks))
    level = eqrm.Level(log_tail=log_tail)
    value, gradient = value_and_gradient(name, risks, level)
    size = np.abs(gradient).sum()
    assert gradient.sum() == pytest.approx(1.0, abs=1e-9 * size)
    assert gradient @ np.array(risks) == pytest.approx(value, abs=1e-9 * size * max(risks))


@cases(150)
@given(name=NAMES, risks=RISKS, first=LOG_TAIL, second=LOG_TAIL)
def test_quantile_grows_with_the_level(
    name: str, risks: list[float], first: float, second: float
) -> None:
    high, low = sorted([first, second])
    estimate = DISTRIBUTIONS[name](torch.tensor(risks, dtype=torch.float64))
    below = float(estimate.quantile(eqrm.Level(log_tail=low)))
    above = float(estimate.quantile(eqrm.Level(log_tail=high)))
    assert below <= above + 1e-10 * (abs(below) + abs(above))


@cases(150)
@given(name=NAMES, risks=RISKS, log_tail=LOG_TAIL)
def test_superquantile_is_between_quantile_and_infinity(
    name: str, risks: list[float], log_tail: float
) -> None:
    level = eqrm.Level(log_tail=log_tail)
    estimate = DISTRIBUTIONS[name](torch.tensor(risks, dtype=torch.float64))
    q, beyond = float(estimate.quantile(level)), float(estimate.superquantile(level))
    assert q - 1e-9 * (abs(q) + max(risks)) <= beyond
    assert math.isfinite(beyond) or name == "lognormal"


@cases(100)
@given(risks=RISKS, log_tail=LOG_TAIL, name=st.sampled_from(["kde gaussian-optimal", "gaussian"]))
def test_cdf_of_the_quantile_is_the_level(risks: list[float], log_tail: float, name: str) -> None:
    assume(len(risks) > 1 and spread_out(risks))
    level = eqrm.Level(log_tail=log_tail)
    estimate = DISTRIBUTIONS[name](torch.tensor(risks, dtype=torch.float64))
    q = estimate.quantile(level)
    # q is rounded to 1e-16 of its size, which the hazard (about z/h) turns into probability.
    slack = 1e-14 * (1.0 + abs(float(q)) / float(estimate.std)) * (1.0 + abs(level.z)) * 1e2
    if level.alpha >= 0.5:
        assert float(estimate.log_sf(q)) == pytest.approx(log_tail, rel=1e-12, abs=slack)
    else:
        assert float(estimate.cdf(q)) == pytest.approx(level.alpha, rel=slack + 1e-12)


@cases(150)
@given(
    m=st.sampled_from([2, 3, 17, 100, 400, 2000, 17_000]),
    seed=st.integers(0, 10**6),
    heaviness=st.floats(0.1, 6.0),
    log_tail=LOG_TAIL,
    width=st.one_of(st.floats(-4.0, 3.0), st.sampled_from(["gaussian-optimal", "silverman"])),
    batched=st.booleans(),
)
def test_kde_quantile_solves_its_equation_however_wild_the_risks(
    m: int, seed: int, heaviness: float, log_tail: float, width: float | str, batched: bool
) -> None:
    """Many scales at once leave wide gaps, in which a solver may lose its way.

    Bandwidths are rules, or from 1e-4 to 1e3 times the standard deviation of the risks.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(m, dtype=torch.float64, generator=generator)
    risks = (heaviness * normal).exp()
    level = eqrm.Level(log_tail=log_tail)
    bandwidth = width if isinstance(width, str) else 10.0**width * float(risks.std())
    estimate = eqrm.KDE(risks[None] if batched else risks, bandwidth)
    q = float(estimate.quantile(level))
    mixture = NormalMixture(risks.numpy(), float(estimate.bandwidth))
    upper = level.alpha >= 0.5
    target = log_tail if upper else level.log_alpha
    found = mixture.log_sf(q) if upper else mixture.log_cdf(q)
    rounding = 4e-16 * abs(q) / mixture.bandwidth * (1.0 + abs(level.z))
    assert found == pytest.approx(target, rel=1e-11, abs=1e-11 + 10.0 * rounding)


@cases(100)
@given(
    name=NAMES,
    pairs=st.lists(st.tuples(RISK, st.floats(0.1, 10.0)), min_size=1, max_size=8),
    absent=st.lists(RISK, min_size=1, max_size=4),
    log_tail=LOG_TAIL,
)
def test_zero_weight_equals_absence(
    name: str, pairs: list[tuple[float, float]], absent: list[float], log_tail: float
) -> None:
    level = eqrm.Level(log_tail=log_tail)
    risks = [r for r, _ in pairs]
    weights = [w for _, w in pairs]
    assume(spread_out(risks))
    build = DISTRIBUTIONS[name]
    alone = torch.tensor(risks, dtype=torch.float64, requires_grad=True)
    joined = torch.tensor(absent + risks, dtype=torch.float64, requires_grad=True)
    expected = build(alone, weights=torch.tensor(weights, dtype=torch.float64)).quantile(level)
    padded = torch.tensor([0.0] * len(absent) + weights, dtype=torch.float64)
    found = build(joined, weights=padded).quantile(level)
    if _ill_conditioned_weighted(name, alone.detach(), weights, level):
        return
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-9, abs=1e-9)
    (gradient,) = torch.autograd.grad(found, joined)
    assert gradient[: len(absent)].abs().max() == 0.0


def _ill_conditioned_weighted(
    name: str, risks: Tensor, weights: list[float], level: eqrm.Level
) -> bool:
    if not name.startswith("kde") or len(risks) < 2:
        return False
    estimate = DISTRIBUTIONS[name](risks, weights=torch.tensor(weights, dtype=torch.float64))
    density = float(estimate.log_prob(estimate.quantile(level)).exp())
    return density * float(risks.max() - risks.min()) < 1e-3 * min(level.alpha, level.tail)


@cases(100)
@given(
    name=NAMES,
    rows=st.integers(2, 4),
    m=st.integers(1, 7),
    seed=st.integers(0, 10**6),
    log_tail=LOG_TAIL,
)
def test_batches_equal_a_loop_over_rows(
    name: str, rows: int, m: int, seed: int, log_tail: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    risks = torch.rand(rows, 1, m, dtype=torch.float64, generator=generator) + 0.1
    level = eqrm.Level(log_tail=log_tail)
    batch = DISTRIBUTIONS[name](risks)
    assert batch.quantile(level).shape == (rows, 1)
    loop = torch.stack([DISTRIBUTIONS[name](row[0]).quantile(level) for row in risks])
    torch.testing.assert_close(batch.quantile(level)[:, 0], loop, rtol=1e-7, atol=1e-9)
    beyond = torch.stack([DISTRIBUTIONS[name](row[0]).superquantile(level) for row in risks])
    torch.testing.assert_close(batch.superquantile(level)[:, 0], beyond, rtol=1e-7, atol=1e-9)


@cases(50)
@given(counts=st.lists(st.integers(1, 4), min_size=2, max_size=5), alpha=st.floats(0.02, 0.98))
def test_integer_weights_equal_repeated_risks(counts: list[int], alpha: float) -> None:
    """For Empirical exactly; for a KDE of fixed bandwidth too, since no rule counts domains."""
    assume(abs(alpha * sum(counts) - round(alpha * sum(counts))) > 1e-6)
    risks = distinct_risks(len(counts))
    repeated = risks.repeat_interleave(torch.tensor(counts))
    weights = torch.tensor(counts, dtype=torch.float64)
    step = eqrm.Empirical(risks, weights=weights).quantile(alpha)
    assert step == eqrm.Empirical(repeated).quantile(alpha)
    smooth = eqrm.KDE(risks, bandwidth=0.3, weights=weights).quantile(alpha)
    torch.testing.assert_close(smooth, eqrm.KDE(repeated, bandwidth=0.3).quantile(alpha))
