"""The distribution of risks without the noise of their measurement, for training.

Each measured risk is drawn towards the mean, so that the spread which remains is that between
domains. On a CPU value and gradient are computed together in NumPy: a step of training with a
memory of thousands of domains spends most of its time here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eqrm.between_domains import (
    TINY,
    Solution,
    between_domains,
    between_with_solution,
    for_numpy,
    slopes_of_between,
)

OfRisks = Callable[[Tensor, Tensor | None], Tensor]

SMALLEST_RELIABILITY = 0.05
"""At most 95% of the spread of the risks is taken for noise."""
LEAST_RATIO = SMALLEST_RELIABILITY / (1.0 - SMALLEST_RELIABILITY)
"""What V is of the noise then, at least."""


def denoised(of_risks: OfRisks, risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """The objective of the risks' distribution, shrunk to the spread that is not noise.

    A measured risk R_i spreads around the mean μ by V + v_i: the true spread V of all domains
    (:func:`eqrm.between_domains.between_domains`) and its own sampling variance v_i. It is drawn
    towards μ by √(V/(V + v_i)), so that each has the variance V, whatever the domains' sizes.
    Differentiable in risks and variances: noise that a predictor could remove is not worth
    removing. (A shrinkage by V/(V + v_i) itself, as James and Stein's, would estimate the single
    risks best, and their spread too small.)

    >>> from eqrm.distributions import Gaussian
    >>> risks = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    >>> third = torch.full((3,), 1 / 3, dtype=torch.float64)
    >>> q = denoised(lambda r, p: Gaussian(r, weights=p).quantile(0.9), risks, third * 2.25, third)
    >>> round(q.item(), 4)  # S² = 1, v = 0.75: half of 1.2816 is left
    2.6408
    """
    if for_numpy(risks) and not weights.requires_grad:
        shrunk: Tensor = _Shrunk.apply(risks, variances, weights)  # type: ignore[no-untyped-call]
    else:
        shrunk = _shrunk(torch, risks, variances, weights)[0]
    return of_risks(shrunk, weights)


class _Shrunk(torch.autograd.Function):
    """What :func:`_shrunk` gives on a CPU, and its gradient, in NumPy."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        with np.errstate(all="ignore"):  # torch does not warn either
            found, workings = _shrunk(np, *(each.detach().numpy() for each in given))
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(*given)
            ctx.workings = workings
        return torch.from_numpy(found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        given = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated once more
            risks, variances = (each.view_as(each) for each in given[:2])
            composed = _shrunk(torch, risks, variances, given[2])[0]
            return *(
                torch.autograd.grad(composed, x, grad, create_graph=True)[0]
                if x.requires_grad
                else None
                for x in (risks, variances)
            ), None
        with np.errstate(all="ignore"):
            slopes = _slopes(ctx.workings, grad.numpy(), *(each.numpy() for each in given))
        return *(torch.from_numpy(each) for each in slopes), None


class _Workings(NamedTuple):
    """What the gradient needs: μ and V, the least V and whose noise it is, S = max(V, least)."""

    mean: Any
    variance: Any
    least: Any
    typical: Any
    spread: Any
    kept: Any
    solution: Solution


def _shrunk(xp: Any, risks: Any, variances: Any, weights: Any) -> tuple[Any, _Workings]:
    """μ + √(S/(S + v_i))·(R_i − μ), of arrays of the module ``xp``, torch or NumPy."""
    found, solution = between_with_solution(xp, risks, variances, weights)
    typical = _typical(xp, found.variance, variances, weights)
    least = LEAST_RATIO * (typical * variances).sum()
    spread = xp.maximum(found.variance, least)
    if xp is np and spread > 0.0:
        kept = np.sqrt(spread / (spread + variances))
    else:  # where there is no noise, S may be 0
        noisy = variances > 0.0
        positive = xp.where(noisy, spread, 1.0)
        kept = xp.where(noisy, positive / (positive + variances), 1.0) ** 0.5
    shrunk = found.mean + kept * (risks - found.mean)
    return shrunk, _Workings(found.mean, found.variance, least, typical, spread, kept, solution)


def _typical(xp: Any, spread: Any, variances: Any, weights: Any) -> Any:
    """Shares (m,) of the domains as they count in the mean: what typical noise is the mean by.

    The least V is the one of which this noise leaves 5%.
    """
    scale = xp.where(spread > 0.0, spread, TINY * (weights * variances).sum())
    precisions = weights / (variances + xp.where(scale > 0.0, scale, 1.0))
    if xp is torch:
        precisions = precisions.detach()
    return precisions / precisions.sum()


def _slopes(at: _Workings, grad: Any, risks: Any, variances: Any, weights: Any) -> tuple[Any, Any]:
    """The slopes in risks and variances (m,), given those in the shrunk risks, in NumPy.

    With k_i = √(S/(S + v_i)): ∂k_i/∂v_i = −k_i/(2(S + v_i)) and ∂k_i/∂S = k_i·v_i/(2S(S + v_i)).
    """
    by_risks = at.kept * grad
    by_mean = float(grad.sum() - by_risks.sum())
    by_variances = by_risks * (risks - at.mean)
    by_variances /= -2.0 * (at.spread + variances)
    if not variances.min() > 0.0:
        by_variances[~(variances > 0.0)] = 0.0
    by_spread = -float(by_variances @ variances) / float(at.spread) if at.spread > 0.0 else 0.0
    # As torch.maximum: each half where they are equal.
    of_variance = 0.5 * (float(at.variance >= at.least) + float(at.variance > at.least))
    if of_variance < 1.0:
        by_variances += ((1.0 - of_variance) * by_spread * LEAST_RATIO) * at.typical
    slopes = slopes_of_between(at.solution, weights, by_mean, of_variance * by_spread)
    return by_risks + slopes[0], by_variances + slopes[1]


def reliability(risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """V/(V + N), at least ``SMALLEST_RELIABILITY``; 1 where nothing is noise.

    V is the variance between domains and N = Σp_i·v_i the mean sampling variance, all of shape
    (m,).

    >>> half = torch.full((2,), 0.5, dtype=torch.float64)
    >>> risks = torch.tensor([1.0, 3.0], dtype=torch.float64)
    >>> reliability(risks, torch.full_like(risks, 0.5), half)
    tensor(0.7500, dtype=torch.float64)
    """
    noise = (weights * variances).sum()
    spread = between_domains(risks, variances, weights).variance
    share = spread / torch.where(noise > 0.0, spread + noise, 1.0)
    return torch.where(noise > 0.0, share.clamp(min=SMALLEST_RELIABILITY), 1.0)
