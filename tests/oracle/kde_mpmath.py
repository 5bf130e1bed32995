"""The quantile of a Gaussian kernel density estimate and its gradient, to more than 50 digits.

The definitions, nothing else: S(q) = sum_i p_i Phi(-(q - R_i)/h) = 1 - alpha with the float
log(1 - alpha) that the package is given, and the implicit function theorem for the gradient.
The solve starts from a float64 root and takes Taylor steps of sixth order, so that one or two
evaluations of erfc per kernel reach full precision; a bracket makes it safe in gaps between risks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from oracle.bandwidths_mpmath import Real, bandwidth_of

DIGITS = 50
WORKING_DIGITS = 80
NEGLIGIBLE = -175.0
"""Log of the share of the tail below which a kernel cannot reach the 70th digit."""

TAYLOR_ORDER = 6
ITERATIONS = 400

Floats = NDArray[np.float64]

try:
    import flint
except ImportError:  # it is only faster: mpmath's own numbers have the same digits

    def _number(x: Real) -> Any:
        return x

    _real, _erfc, _exp = _number, mp.erfc, mp.exp
else:
    flint.ctx.prec = 300  # bits: more than the working digits

    def _number(x: Real) -> Any:
        """For long sums: Arb's balls, of which the middle is taken at the end."""
        return flint.arb(x)

    def _real(x: Any) -> Real:
        return mp.make_mpf(x.mid()._mpf_)

    _erfc, _exp = flint.arb.erfc, flint.arb.exp


@dataclass(frozen=True)
class KdeTruth:
    """The true quantile, its gradient in the risks and what its conditioning depends on."""

    quantile: Real
    gradient: Floats
    bandwidth: Real
    density: Real
    log_tail: float
    risks: tuple[float, ...]
    probabilities: tuple[Real, ...]

    @property
    def smaller_tail(self) -> Real:
        """min(alpha, 1 - alpha)."""
        with mp.workdps(WORKING_DIGITS):
            tail = mp.exp(mp.mpf(self.log_tail))
            return min(tail, 1 - tail)

    @cached_property
    def present(self) -> list[tuple[float, Real]]:
        """Risks and probabilities of domains with weight."""
        pairs = zip(self.risks, self.probabilities, strict=True)
        return [(risk, p) for risk, p in pairs if p > 0]

    @cached_property
    def range(self) -> Real:
        """max R - min R over domains with weight."""
        risks = [risk for risk, _ in self.present]
        with mp.workdps(WORKING_DIGITS):
            return mp.mpf(max(risks)) - mp.mpf(min(risks))

    @property
    def well_conditioned(self) -> bool:
        """Whether f(q) (max R - min R) >= 1e-3 min(alpha, 1 - alpha): not in a gap of risks."""
        with mp.workdps(WORKING_DIGITS):
            return bool(self.density * self.range >= mp.mpf("1e-3") * self.smaller_tail)

    def value_error(self, quantile: float) -> float:
        """|q - q*| / max(|q*|, max R - min R)."""
        with mp.workdps(WORKING_DIGITS):
            scale = max(abs(self.quantile), self.range)
            return float(abs(mp.mpf(quantile) - self.quantile) / scale)

    def gradient_error(self, gradient: Floats) -> float:
        """max_i |g_i - g*_i| / max_i |g*_i|."""
        return float(np.max(np.abs(gradient - self.gradient)) / np.max(np.abs(self.gradient)))

    def residual(self, quantile: float) -> float:
        """|S(q)/(1 - alpha) - 1|, or the same for the lower tail when alpha < 1/2 (stricter)."""
        with mp.workdps(WORKING_DIGITS):
            q = mp.mpf(quantile)
            tail = mp.exp(mp.mpf(self.log_tail))
            width = _number(self.bandwidth * mp.sqrt(2) * (1 if tail <= 0.5 else -1))
            twice = sum(_number(p) * _erfc(_number(q - r) / width) for r, p in self.present)
            return float(abs(_real(twice) / 2 / min(tail, 1 - tail) - 1))


@dataclass(frozen=True)
class _UpperTail:
    """sum_i p_i Phi(-(t - t_i)) = exp(log_mass) with t in bandwidths; alpha < 1/2 is mirrored."""

    centres: list[Any]
    probabilities: list[Any]
    log_mass: Real

    @cached_property
    def float_centres(self) -> Floats:
        return np.array([float(c) for c in self.centres])

    def float_root(self) -> tuple[float, float, float]:
        """A float64 root by bisection of the log tail, and a safe bracket around it."""
        centres = self.float_centres
        log_p = np.log(np.array([float(p) for p in self.probabilities]))
        target = float(self.log_mass)
        z = -float(ndtri_exp(target))
        slack = 1e-6 * (1.0 + abs(z) + float(np.abs(centres).max()))
        low, high = float(centres.min()) + z - slack, float(centres.max()) + z + slack
        inner_low, inner_high = low, high
        for _ in range(90):
            middle = 0.5 * (inner_low + inner_high)
            kernels = log_p + log_ndtr(centres - middle)
            largest = kernels.max()
            if largest + np.log(np.exp(kernels - largest).sum()) > target:
                inner_low = middle
            else:
                inner_high = middle
        return 0.5 * (inner_low + inner_high), low, high

    def derivatives(self, t: Real, order: int) -> list[Real]:
        """S(t) and its first derivatives, kernels beyond the 70th digit left out."""
        z_float = float(t) - self.float_centres
        log_target = float(self.log_mass)
        full = log_ndtr(z_float) < log_target + NEGLIGIBLE
        absent = log_ndtr(-z_float) < log_target + NEGLIGIBLE
        place, root = _number(t), _number(mp.sqrt(2))
        tail = _number(mp.mpf(0))
        moments = [_number(mp.mpf(0))] * order  # sums of p exp(-z²/2) z^k
        for i, (centre, p) in enumerate(zip(self.centres, self.probabilities, strict=True)):
            if full[i]:
                tail += p
            elif not absent[i]:
                z = place - centre
                tail += p * _erfc(z / root) / 2
                term = p * _exp(-z * z / 2)
                for k in range(order):
                    moments[k] = moments[k] + term
                    term = term * z
        return [_real(tail), *_derivatives([_real(total) for total in moments])]

    def solve(self) -> Real:
        start, low_float, high_float = self.float_root()
        t, low, high = mp.mpf(start), mp.mpf(low_float), mp.mpf(high_float)
        target = mp.exp(self.log_mass)
        for _ in range(ITERATIONS):
            taylor = self.derivatives(t, TAYLOR_ORDER)
            if taylor[0] > target:
                low = t
            else:
                high = t
            step = _taylor_step(taylor, target)
            # The remainder is (z step)^7: below the 60th digit, so this step is the last.
            if step is not None and abs(step) * (1 + abs(t)) < mp.mpf(10) ** -9:
                return t + step
            t = t + step if step is not None and low < t + step < high else (low + high) / 2
        raise ArithmeticError("the 50-digit solve did not converge")


def _derivatives(moments: Sequence[Real]) -> list[Real]:
    """d^k/dz^k Phi(-z) = (-1)^k He_{k-1}(z) phi(z), summed, from sums of exp(-z²/2) z^k."""
    found, before, hermite = [], [0], [1]  # the coefficients of He_{k-1}, from that of z^0
    for k in range(len(moments)):
        total = mp.fdot(hermite, moments[: k + 1]) / mp.sqrt(2 * mp.pi)
        found.append((-1) ** (k + 1) * total)
        padded = [*before, 0, 0][: k + 2]
        before, hermite = hermite, [a - k * b for a, b in zip([0, *hermite], padded, strict=True)]
    return found


def _taylor_step(taylor: Sequence[Real], target: Real) -> Real | None:
    """The root of the Taylor polynomial near zero, or None where Newton on it does not settle."""
    coefficients = [d / mp.factorial(k) for k, d in enumerate(taylor)]
    coefficients[0] -= target
    if coefficients[1] == 0:
        return None
    coefficients = [c / coefficients[1] for c in coefficients]
    step = -coefficients[0]
    for _ in range(40):
        value, slope = mp.mpf(0), mp.mpf(0)
        for coefficient in reversed(coefficients):  # Horner
            value, slope = value * step + coefficient, slope * step + value
        if slope <= 0:
            return None
        change = value / slope
        step -= change
        if abs(change) <= mp.mpf(10) ** -(WORKING_DIGITS - 10) * (1 + abs(step)):
            return step
    return None


@dataclass(frozen=True)
class _Setting:
    """What all levels of the same risks, weights and rule have in common."""

    pivot: Real
    probabilities: tuple[Real, ...]
    present: list[int]
    bandwidth: Real
    slopes: list[Any]
    """Of the bandwidth, for the risks that are present; so are centres and shares."""
    centres: list[Any]
    shares: list[Any]


@lru_cache(maxsize=16)
def _setting(
    risks: tuple[float, ...], bandwidth: str | float, weights: tuple[float, ...] | None
) -> _Setting:
    given = [mp.mpf(1)] * len(risks) if weights is None else [mp.mpf(w) for w in weights]
    total = mp.fsum(given)
    probabilities = tuple(g / total for g in given)
    present = [i for i, w in enumerate(given) if w > 0]
    pivot = mp.mpf(risks[present[0]])
    differences = [mp.mpf(risks[i]) - pivot for i in present]
    h, h_gradient = bandwidth_of(bandwidth, differences, [probabilities[i] for i in present])
    width = _number(h)
    return _Setting(
        pivot,
        probabilities,
        present,
        h,
        slopes=[_number(slope) for slope in h_gradient],
        centres=[_number(d) / width for d in differences],
        shares=[_number(probabilities[i]) for i in present],
    )


def kde_truth(
    risks: Sequence[float],
    log_tail: float,
    bandwidth: str | float = "gaussian-optimal",
    weights: Sequence[float] | None = None,
) -> KdeTruth:
    """Solve for the quantile at log(1 - alpha) = ``log_tail`` and differentiate it.

    >>> truth = kde_truth([1.0, 2.0], -0.6931471805599453)
    >>> round(float(truth.quantile), 12), truth.gradient.round(12).tolist()
    (1.5, [0.5, 0.5])
    """
    with mp.workdps(WORKING_DIGITS):
        shared = _setting(tuple(risks), bandwidth, None if weights is None else tuple(weights))
        h, shares, centres = shared.bandwidth, shared.shares, shared.centres
        t = _root_in_bandwidths(centres, shares, mp.mpf(log_tail))
        place = _number(t)
        z = [place - centre for centre in centres]
        kernels = [pi * _exp(-zi * zi / 2) for pi, zi in zip(shares, z, strict=True)]
        total_kernel = sum(kernels)
        w = [k / total_kernel for k in kernels]
        z_bar, mass = sum(wi * zi for wi, zi in zip(w, z, strict=True)), _real(total_kernel)
        gradient = np.zeros(len(risks))
        gradient[shared.present] = [
            float(wi + z_bar * slope) for wi, slope in zip(w, shared.slopes, strict=True)
        ]
        return KdeTruth(
            quantile=shared.pivot + h * t,
            gradient=gradient,
            bandwidth=h,
            density=mass / (h * mp.sqrt(2 * mp.pi)),
            log_tail=log_tail,
            risks=tuple(float(r) for r in risks),
            probabilities=shared.probabilities,
        )


def _root_in_bandwidths(centres: list[Any], p: list[Any], log_tail: Real) -> Real:
    """The root with the smaller of the two tails as the target, by mirroring below 1/2."""
    if mp.exp(log_tail) <= 0.5:
        return _UpperTail(centres, p, log_tail).solve()
    mirrored = [-c for c in centres]
    return -_UpperTail(mirrored, p, mp.log(-mp.expm1(log_tail))).solve()
