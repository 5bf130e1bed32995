"""``gradient="bisection"``: the published gradient, and how far it is from the true one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import eqrm
from cases import in_full
from oracle.laws import draw_risks

PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published.py"


def _published_quantile() -> Callable[[Tensor, float], Tensor]:
    """Algorithm 1 as published, from the benchmarks, which are no package."""
    spec = importlib.util.spec_from_file_location("published", PUBLISHED)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[Tensor, float], Tensor] = module.published_quantile
    return found


published_quantile = _published_quantile()


def _gradient(values: np.ndarray, alpha: float, gradient: str) -> np.ndarray:
    risks = torch.from_numpy(values).requires_grad_()
    eqrm.KDE(risks, gradient=gradient).quantile(alpha).backward()
    assert risks.grad is not None
    return np.asarray(risks.grad.numpy())


@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.75, 0.9, 0.99])
@pytest.mark.parametrize("m", [2, 3, 10, 90, *in_full(1000)])
def test_bisection_gradient_is_what_back_propagation_through_bisection_gives(
    m: int, alpha: float
) -> None:
    values = draw_risks("lognormal", m, 0)
    risks = torch.from_numpy(values).requires_grad_()
    published = published_quantile(risks, alpha)
    (expected,) = torch.autograd.grad(published, risks)
    found = _gradient(values, alpha, "bisection")
    # 32 halvings locate the root to 2e-10 of the bracket.
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-8)
    exact = eqrm.KDE(torch.from_numpy(values)).quantile(alpha)
    assert float(published.detach()) == pytest.approx(float(exact), rel=1e-8)
