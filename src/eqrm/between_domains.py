"""How much risks differ between domains, beyond the noise of their measurement.

The measured risk of domain i is R_i = ρ_i + ε_i: a true risk ρ_i of variance V over domains, and
sampling noise of variance v_i = s²/n_i. Domains differ in size, so the plain variance of the R_i
minus the mean of the v_i is at the mercy of the smallest domains. The restricted likelihood
(REML) weights each domain by 1/(V + v_i):

    ℓ(V) = −½ Σ log(V + v_i) − ½ log Σ 1/(V + v_i) − ½ Σ (R_i − μ)²/(V + v_i),

with μ the weighted mean of the R_i. For domains of one size its maximum is the plain variance
minus the noise. Evaluation (:mod:`eqrm.evaluation.inference.noise`) and training
(:class:`eqrm.objectives.RiskMemory`) both rest on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eqrm.arrays import Values, detached
from eqrm.execution import can_read, is_tensor, namespace

if TYPE_CHECKING:
    from torch import Tensor

OfRisks = Callable[["Tensor", "Tensor | None"], "Tensor"]
"""An objective: from risks (m,) and their weights, or None, to a number."""

PRIOR_FREEDOM = 200.0
"""How many examples the variance of the losses in all domains is worth against a domain's own.

With skewed losses a domain whose risk is low by chance also has a low variance by chance, and
would get too much weight; with a common variance for all, domains that really are noisier would
get too much. Chosen by simulation.
"""
GRIDS, GRID = 3, 32
"""How many grids of how many values of V enclose the maximum, before two Newton steps."""
BINS = 256
"""More domains than this are enclosed by their sums over bins of equal noise."""
SMALLEST_RELIABILITY = 0.05
"""At most 95% of the spread of the risks is taken for noise in training."""
TINY = 1e-12
"""The smallest V tried, as a share of the variance of the measured risks and their noise."""

Vector = npt.NDArray[np.float64]


class Between(NamedTuple):
    """Mean μ and variance V of the true risks of the domains, and the standard error of V."""

    mean: Values
    variance: Values
    error: Values


def common_variance(loss_variances: Vector, counts: Vector) -> float:
    """The variance s² of the losses within domains, from those of each domain (m,).

    Weighted by (n−1)/(f + n − 1) with f = ``PRIOR_FREEDOM``, so that no domain outweighs all
    others however large it is. 0 where no domain has two examples.
    """
    known, own = _own(loss_variances, counts)
    total = own.sum()
    with np.errstate(over="ignore"):
        return float((own * known).sum() / total) if total > 0.0 else 0.0


def pooled_variances(loss_variances: Vector, counts: Vector) -> Vector:
    """The variance of the losses in each domain (m,), drawn towards that of all domains.

    A domain of n examples has n − 1 degrees of freedom of its own, and gets
    (f·s² + (n−1)·s_i²)/(f + n − 1), s² being the :func:`common_variance`; a domain with one
    example gets that.
    """
    known, own = _own(loss_variances, counts)
    return own * known + (1.0 - own) * common_variance(loss_variances, counts)


def _own(loss_variances: Vector, counts: Vector) -> tuple[Vector, Vector]:
    """Variances, 0 where there is none, and their shares (n−1)/(f + n − 1)."""
    freedom = np.maximum(counts - 1, 0.0)
    return np.where(freedom > 0.0, loss_variances, 0.0), freedom / (freedom + PRIOR_FREEDOM)


def between_domains(risks: Values, variances: Values, weights: Values = None) -> Between:
    """The maximum of the restricted likelihood, V ≥ 0, differentiable in risks and variances.

    ``risks`` (m,) are measured with the sampling variances ``variances`` (m,): tensors or arrays
    in float64. ``weights`` (m,) count domains in part, or not at all with 0; they sum to 1. Without
    gradient, safeguarded Newton steps solve ℓ'(V) = 0 from above; a last step attaches the exact
    one (implicit function theorem).
    """
    if weights is None:
        weights = namespace(risks).full_like(risks, 1.0 / len(risks))
    given = risks, variances, weights
    if not is_tensor(risks):
        with np.errstate(all="ignore"):  # torch does not warn either
            return Between(*map(float, _between(np, *given)))
    if not can_read(risks) or any(each.requires_grad for each in given):
        return _between(namespace(risks), *given)
    found = between_domains(*(each.numpy() for each in given))
    return Between(*(risks.new_tensor(each) for each in found))


def _between(xp: Any, risks: Any, variances: Any, weights: Any) -> Between:
    """The same for arrays of the module ``xp``, torch or NumPy."""
    number = 1.0 / (weights * weights).sum()  # of domains, where all count the same
    pivot = detached((weights * risks).sum())
    unit = unit_of(xp, detached(risks) - pivot, detached(variances))
    deviations, noise = (risks - pivot) / unit, variances / unit / unit
    powers = xp.stack([weights, weights * deviations, weights * deviations**2], 1)
    given = detached(powers), detached(noise), number
    if xp is np or not can_read(risks):
        near, inside = _solved(xp, *given)
    else:  # many small steps cost less in NumPy
        with np.errstate(all="ignore"):
            found = _solved(np, *(each.detach().numpy() for each in given))
        near, inside = map(xp.as_tensor, found)
    score, slope, information = _score(near, powers, noise, number)
    # With a fixed slope the step is differentiable as the solution of ℓ'(V) = 0 is.
    stepped = _stepped(xp, near, score, detached(slope))
    variance = xp.where(inside, stepped, 0.0)
    precisions = weights / (noise + xp.where(inside, variance, near))
    mean = pivot + unit * (precisions * deviations).sum() / precisions.sum()
    error = detached((2.0 / information) ** 0.5)
    return Between(mean, variance * unit * unit, error * unit * unit)


def unit_of(xp: Any, deviations: Any, variances: Any) -> Any:
    """A unit in which neither risks nor variances are too large or small to be squared."""
    largest = xp.maximum(xp.abs(deviations).max(), variances.max() ** 0.5)
    return xp.where(largest > 0.0, largest, 1.0)


def restricted_log_likelihood(variance: float, risks: Any, variances: Any) -> float:
    """ℓ(V) up to a constant, for domains that all count; of arrays or tensors without gradient."""
    values, total = np.asarray(risks), np.asarray(variances) + variance
    precisions = 1.0 / total
    precision = precisions.sum()
    deviations = values - (precisions @ values) / precision
    found = np.log(total).sum() + np.log(precision) + precisions @ (deviations * deviations)
    return -0.5 * float(found)


def _sums(variance: Any, powers: Any, variances: Any, number: Any) -> tuple[Any, ...]:
    """Twice ℓ'(V), and before it precisions w = 1/(V + v), their squares, and sums of both."""
    precision = 1.0 / (variances + variance[..., None])
    square = precision * precision
    first, second = precision @ powers, square @ powers
    one, two = first[..., 0], second[..., 0]
    mean = first[..., 1] / one
    tilt = second[..., 1] - mean * two  # Σ w²(R − μ)
    value = number * (second[..., 2] - mean * (second[..., 1] + tilt) - one) + two / one
    return precision, square, one, two, mean, tilt, value


def _score(variance: Any, powers: Any, variances: Any, number: Any) -> tuple[Any, Any, Any]:
    """Twice ℓ'(V), its slope, and its expected slope with the sign changed.

    ``powers`` (m, 3) are the weight of each domain times the powers 0 to 2 of its risk.
    """
    precision, square, one, two, mean, tilt, value = _sums(variance, powers, variances, number)
    third = (square * precision) @ powers
    three = third[..., 0]
    cubes = third[..., 2] - mean * (2.0 * third[..., 1] - mean * three)  # Σ w³(R − μ)²
    slope = number * (2.0 * (tilt * tilt / one - cubes) + two)
    return value, slope + (two / one) ** 2 - 2.0 * three / one, number * two


def _stepped(xp: Any, variance: Any, score: Any, slope: Any) -> Any:
    """A Newton step where ℓ' falls, to V ≥ 0."""
    falls = slope < 0.0
    step = score / xp.where(falls, slope, 1.0)
    return xp.where(falls, (variance - step).clip(0.0, None), variance)


def _solved(xp: Any, powers: Any, variances: Any, number: Any) -> tuple[Any, Any]:
    """The largest V at which ℓ' falls through 0, and whether there is one; if not, V close to 0.

    Precisions change where V is about as large as the smallest variance a or larger, so the grids
    are even in log(V + a). Each lies in that cell of the one before where ℓ' falls last; a Newton
    step leads from the middle of the last.
    """
    weights, squares = powers[:, 0], powers[:, 2]
    scale = squares.sum() + (weights * variances).sum()
    least = TINY * xp.where(scale > 0.0, scale, 1.0)
    smallest = xp.where(weights > 0.0, variances, xp.inf).min() + least
    most = 4.0 * number * squares.max() + least
    all_domains = powers, variances, number
    if len(variances) > BINS:
        powers, variances = _binned(xp, powers, variances, smallest)
    share, places, cells = _cells_of_arrays() if xp is np else _cells(xp, powers)
    low, high = xp.log(least + smallest), xp.log(most + smallest)
    exists = low > high  # not yet
    for _ in range(GRIDS):
        width = high - low
        grid = low + share * width
        *_, value = _sums(xp.exp(grid) - smallest, powers, variances, number)
        last = xp.where(value > 0.0, places, 0).max()
        exists = exists | (last > 0)
        low, high = low + cells[last[None]][0] * width
    enclosed = xp.where(exists, xp.exp(0.5 * (low + high)) - smallest, least)
    score, slope, _ = _score(enclosed, *all_domains)
    return xp.where(exists, _stepped(xp, enclosed, score, slope), enclosed), exists


def _cells(xp: Any, like: Any) -> tuple[Any, Any, Any]:
    """Shares of a grid's width (GRID,), their places from 1, and the cell after each place.

    Cells (GRID + 1, 2) are two shares; place 0, before the grid, and the last one have no width.
    """
    device = {"device": like.device} if is_tensor(like) else {}
    share = xp.linspace(0.0, 1.0, GRID, dtype=like.dtype, **device)
    places = xp.arange(1, GRID + 1, **device)
    cells = xp.stack([xp.concatenate([share[:1], share]), xp.concatenate([share, share[-1:]])], 1)
    return share, places, cells


@cache
def _cells_of_arrays() -> tuple[Any, Any, Any]:
    return _cells(np, np.empty(0))


def _binned(xp: Any, powers: Any, variances: Any, smallest: Any) -> tuple[Any, Any]:
    """The same sums over domains of about the same variance, for a solution that is nearly right.

    The mean variance of a bin stands for those in it, an error of the second order.
    """
    weights = powers[:, 0]
    size = xp.log(xp.where(weights > 0.0, variances, 0.0) + smallest)
    size = size - size.min()
    largest = size.max()
    bins = size * ((BINS - 1) / xp.where(largest > TINY, largest, TINY))
    columns = [powers[:, 0], powers[:, 1], powers[:, 2], weights * variances]
    if is_tensor(powers):
        zeros, places = powers.new_zeros(BINS), bins.to(xp.int64)
        totals: Any = [zeros.index_add(0, places, column) for column in columns]
    else:
        places = bins.astype(np.int64)
        totals = [np.bincount(places, column, BINS) for column in columns]
    return xp.stack(totals[:3], -1), totals[3] / xp.where(totals[0] > 0.0, totals[0], 1.0)


def with_common_losses(variances: Tensor, unit_variances: Tensor, weights: Tensor) -> Tensor:
    """Sampling variances of the same mean, with one variance of the losses for all domains.

    A domain's own would reward noise in the domains with the highest risks: the noisier they are,
    the more their risks are drawn in. All count as in the mean of the risks, whatever their noise:
    the gradient flows into the domains of the batch, which were visited last.
    """
    units = (weights * unit_variances).sum()
    return unit_variances * ((weights * variances).sum() / units)


def denoised(of_risks: OfRisks, risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """The objective of the risks' distribution, shrunk to the spread that is not noise.

    A measured risk is drawn towards the mean μ by √(V/(V + v_i)), so that each has the variance V,
    whatever the domains' sizes. Differentiable in risks and variances: noise that a predictor could
    remove is not worth removing. (A shrinkage by V/(V + v_i) itself, as James and Stein's, would
    estimate the single risks best, and their spread too small.)
    """
    found = between_domains(risks, variances, weights)
    noisy = variances > 0.0
    xp = namespace(risks)
    spread = xp.maximum(found.variance, _least_spread(found.variance, variances, weights))
    spread = xp.where(noisy, spread, 1.0)
    kept = xp.where(noisy, spread / (spread + variances), 1.0) ** 0.5
    return of_risks(found.mean + kept * (risks - found.mean), weights)


def _least_spread(spread: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """The V of which typical noise, that of domains as they count in the mean, leaves 5%."""
    xp = namespace(spread)
    scale = xp.where(spread > 0.0, spread, TINY * (weights * variances).sum())
    precisions = weights / (variances + xp.where(scale > 0.0, scale, 1.0)).detach()
    typical: Tensor = (precisions * variances).sum() / precisions.sum()
    return typical * (SMALLEST_RELIABILITY / (1.0 - SMALLEST_RELIABILITY))


def reliability(risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """V/(V + N), at least ``SMALLEST_RELIABILITY``; 1 where nothing is noise.

    V is the variance between domains and N = Σp_i·v_i the mean sampling variance, all of shape
    (m,).
    """
    noise = (weights * variances).sum()
    spread = between_domains(risks, variances, weights).variance
    xp = namespace(noise)
    share = spread / xp.where(noise > 0.0, spread + noise, 1.0)
    found: Tensor = xp.where(noise > 0.0, share.clamp(min=SMALLEST_RELIABILITY), 1.0)
    return found
