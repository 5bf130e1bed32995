"""Degenerate and wrong input: finite values and gradients, or an error that names the offender."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import eqrm
from eqrm.errors import DomainDataError, LevelError
from oracle.catalogue import (
    DISTRIBUTIONS,
    DTYPES,
    EQUIVARIANT_DISTRIBUTIONS,
    LEVELS,
    distinct_risks,
)
from oracle.generated import NAMES, RISK, cases
from oracle.kde_mpmath import kde_truth
from oracle.package import value_and_gradient

DEGENERATE = {
    "one domain": [0.7],
    "two equal": [0.7, 0.7],
    "all equal": [0.3] * 9,
    "ties with zero IQR": [0.5] * 9 + [0.9],
    "two values": [0.1, 0.1, 0.1, 0.4, 0.4],
    "one huge outlier": [0.1, 0.2, 0.3, 1e4],
    "one ulp apart": [1.0, 1.0 + 2.0**-7, 1.0],
}


@pytest.mark.parametrize("risks", DEGENERATE, ids=str)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_degenerate_risks_give_finite_values_and_gradients(name: str, risks: str) -> None:
    for level in ("0.01", "0.5", "0.9", "1-e^-20", "1-e^-1000"):
        for dtype in DTYPES:
            _check_degenerate(name, DEGENERATE[risks], LEVELS[level], dtype)


def _check_degenerate(
    name: str, values: list[float], level: eqrm.Level, dtype: torch.dtype
) -> None:
    tensor = torch.tensor(values, dtype=dtype, requires_grad=True)
    if _too_large(name, tensor.detach().double(), level, dtype):
        with pytest.raises(DomainDataError, match="too large"):
            DISTRIBUTIONS[name](tensor).quantile(level)
        return
    q = DISTRIBUTIONS[name](tensor).quantile(level)
    (gradient,) = torch.autograd.grad(q, tensor)
    assert q.dtype == dtype
    assert gradient.dtype == dtype
    assert q.isfinite()
    assert gradient.isfinite().all()
    if len(set(values)) == 1 and name not in ("kde number", "kde function"):
        assert float(q.detach()) == pytest.approx(float(tensor[0].detach()), rel=1e-15)
        # Interpolation between two of the equal risks is a subgradient too.
        if name != "empirical linear":
            expected = torch.full_like(gradient, 1.0 / len(values))
            torch.testing.assert_close(gradient, expected, rtol=1e-2, atol=1e-6)


def _too_large(name: str, risks: Tensor, level: eqrm.Level, dtype: torch.dtype) -> bool:
    return float(DISTRIBUTIONS[name](risks).quantile(level)) > torch.finfo(dtype).max


@pytest.mark.parametrize("name", EQUIVARIANT_DISTRIBUTIONS)
@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        (1e-30, torch.float32),
        (1e30, torch.float32),
        (1e-300, torch.float64),
        (1e300, torch.float64),
    ],
)
def test_tiny_and_huge_risks_are_like_all_others(
    name: str, size: float, dtype: torch.dtype
) -> None:
    plain = distinct_risks(5)
    tensor = (plain * size).to(dtype).requires_grad_()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    for level in (LEVELS[text] for text in ("0.1", "0.5", "0.9", "1-e^-1000")):
        expected, expected_gradient = value_and_gradient(name, plain.tolist(), level)
        q = EQUIVARIANT_DISTRIBUTIONS[name](tensor).quantile(level)
        (gradient,) = torch.autograd.grad(q, tensor)
        assert float(q.detach()) / size == pytest.approx(expected, rel=tolerance)
        largest = np.abs(expected_gradient).max()
        np.testing.assert_allclose(gradient.numpy(), expected_gradient, atol=tolerance * largest)


@cases(75)
@given(
    risks=st.lists(RISK, min_size=1, max_size=6),
    bad=st.sampled_from([math.nan, math.inf, -math.inf]),
    where=st.integers(0, 6),
    name=NAMES,
)
def test_a_bad_risk_is_named_in_the_error(
    risks: list[float], bad: float, where: int, name: str
) -> None:
    index = where % (len(risks) + 1)
    values = [*risks[:index], bad, *risks[index:]]
    with pytest.raises(DomainDataError, match=rf"\b{index}\b") as caught:
        DISTRIBUTIONS[name](torch.tensor(values, dtype=torch.float64)).quantile(0.5)
    assert str(bad) in str(caught.value)
    assert caught.value.index == (index,)


@cases(50)
@given(
    alpha=st.one_of(
        st.floats(max_value=-1e-300), st.floats(min_value=1.0 + 1e-12), st.just(math.nan)
    )
)
def test_a_level_outside_the_unit_interval_is_named_in_the_error(alpha: float) -> None:
    with pytest.raises(LevelError, match=re.escape(str(alpha)).replace("nan", "(?i:nan)")):
        eqrm.KDE(torch.tensor([0.1, 0.2])).quantile(alpha)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("name", [n for n in DISTRIBUTIONS if not n.startswith("empirical")])
def test_levels_0_and_1_are_refused_by_laws_without_bounds(name: str, alpha: float) -> None:
    with pytest.raises(LevelError, match=f"alpha = {alpha:g}"):
        DISTRIBUTIONS[name](distinct_risks()).quantile(alpha)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_empty_and_misshapen_input_is_refused(name: str) -> None:
    build = DISTRIBUTIONS[name]
    with pytest.raises(DomainDataError, match="At least one risk is needed"):
        build(torch.tensor([]))
    with pytest.raises(DomainDataError, match="At least one risk is needed"):
        build(torch.zeros(3, 0))
    with pytest.raises(DomainDataError, match="vector"):
        build(torch.tensor(1.0))
    with pytest.raises(DomainDataError, match=r"\(2,\)"):
        build(torch.tensor([1.0, 2.0, 3.0]), weights=torch.tensor([1.0, 1.0]))
    with pytest.raises(DomainDataError, match=r"domain 1 is -1"):
        build(torch.tensor([1.0, 2.0]), weights=torch.tensor([1.0, -1.0]))
    with pytest.raises(DomainDataError, match="weights"):
        build(torch.tensor([1.0, 2.0]), weights=torch.tensor([0.0, 0.0]))
    with pytest.raises(DomainDataError, match="behind a mask"):
        build(np.ma.array([1.0, 2.0, 1000.0], mask=[0, 0, 1]))


def test_weights_whose_sum_overflows_count_alike() -> None:
    risks, weights = torch.tensor([1.0, 2.0, 3.0]), torch.full((3,), 1e308, dtype=torch.float64)
    assert eqrm.KDE(risks, weights=weights).quantile(0.5).item() == pytest.approx(2.0)


@pytest.mark.parametrize("largest", [[1.0, 1e-12], [1e-12, 1.0]], ids=str)
@pytest.mark.parametrize("mirrored", [False, True])
def test_equally_large_risks_of_very_different_weight(largest: list[float], mirrored: bool) -> None:
    sign, alpha = (-1.0, 1e-8) if mirrored else (1.0, 1.0 - 1e-8)
    risks, weights, level = [0.0, sign, sign], [1e-2, *largest], eqrm.Level(alpha)
    truth = kde_truth(risks, level.log_tail, weights=weights)
    tensor = torch.tensor(risks, dtype=torch.float64, requires_grad=True)
    given = torch.tensor(weights, dtype=torch.float64)
    value = eqrm.KDE(tensor, weights=given).quantile(level)
    (slopes,) = torch.autograd.grad(value, tensor)
    assert truth.value_error(value.item()) < 1e-12
    assert truth.gradient_error(slopes.numpy()) < 1e-12


@pytest.mark.parametrize("bandwidth", [1e120, 1e201, 1e250])
def test_a_huge_bandwidth_is_used_as_given(bandwidth: float) -> None:
    risks = torch.tensor([0.1, 0.2, 0.5, 0.9], dtype=torch.float64, requires_grad=True)
    value = eqrm.KDE(risks, bandwidth=bandwidth).quantile(0.9)
    (slopes,) = torch.autograd.grad(value, risks)
    assert value.item() == pytest.approx(bandwidth * eqrm.Level(0.9).z, rel=1e-12)
    assert slopes.tolist() == pytest.approx([0.25] * 4, rel=1e-12)
