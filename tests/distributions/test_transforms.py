"""Quantiles inside the transforms of ``torch.func``, and compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap

import eqrm
from oracle.catalogue import DISTRIBUTIONS, distinct_risks
from oracle.catalogue import LEVELS as EVERY_LEVEL

RISKS = torch.tensor([0.3, 0.1, 0.9, 0.45, 0.2], dtype=torch.float64)
ROWS = torch.stack([RISKS, RISKS.flip(0) * 2.0, RISKS**2 + 0.1])
FEW_LEVELS = sorted(EVERY_LEVEL, key=lambda name: EVERY_LEVEL[name].log_tail)[::4]
LEVELS = [eqrm.Level(0.3), eqrm.Level(0.9), eqrm.Level(log_tail=-1000)]


def _quantile(name: str, level: eqrm.Level) -> Callable[[Tensor], Tensor]:
    return lambda risks: DISTRIBUTIONS[name](risks).quantile(level)


def _usual_gradient(function: Callable[[Tensor], Tensor], risks: Tensor) -> Tensor:
    leaf = risks.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(leaf).sum(), leaf)
    return gradient


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_grad_of_torch_func_is_the_usual_gradient(name: str, level: eqrm.Level) -> None:
    function = _quantile(name, level)
    found = grad(function)(RISKS)
    torch.testing.assert_close(found, _usual_gradient(function, RISKS), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_vmap_over_rows_is_a_batch_of_rows(name: str, level: eqrm.Level) -> None:
    function = _quantile(name, level)
    torch.testing.assert_close(vmap(function)(ROWS), function(ROWS), rtol=1e-12, atol=1e-14)


def test_per_row_gradients_and_second_derivatives_hold() -> None:
    function = _quantile("kde gaussian-optimal", eqrm.Level(0.9))
    found = vmap(grad(function))(ROWS)
    torch.testing.assert_close(found, _usual_gradient(function, ROWS), rtol=1e-9, atol=1e-12)
    step = 1e-6 * torch.eye(5, dtype=torch.float64)
    numeric = torch.stack(
        [(grad(function)(RISKS + e) - grad(function)(RISKS - e)) / 2e-6 for e in step]
    )
    torch.testing.assert_close(jacrev(grad(function))(RISKS), numeric, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(jacrev(function)(RISKS), grad(function)(RISKS))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "level"),
    [
        *(("kde gaussian-optimal", level) for level in EVERY_LEVEL),
        *((n, lv) for n in ("kde silverman", "gaussian", "lognormal") for lv in FEW_LEVELS),
    ],
)
def test_the_fixed_steps_of_gpus_and_graphs_compile_without_a_break(name: str, level: str) -> None:
    function = _quantile(name, EVERY_LEVEL[level])
    risks = distinct_risks(20)
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(risks), function(risks), rtol=1e-10, atol=0.0)
    found = _usual_gradient(compiled, risks)
    torch.testing.assert_close(found, _usual_gradient(function, risks), rtol=0.0, atol=1e-10)
