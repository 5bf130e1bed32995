"""Newton's method with exact Hessians, held by a trust region.

Quantiles are not convex in the parameters, so the Hessian may be indefinite on the way. Each
step minimises the quadratic model exactly within a radius (Moré & Sorensen 1983), in
coordinates in which the Hessian of the mean risk is a multiple of the identity; the radius
follows how well the model predicted the last step.

A step on moments takes well under a millisecond. Waking the threads of BLAS and torch for it
costs more than they save, and milliseconds on a machine with other work to do, so solvers run
in :func:`one_thread`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from eqrm.execution import thread_count
from eqrm.linear.solving.measures import MeasureOfRisks, Point
from eqrm.linear.solving.risk_functions import Array
from eqrm.linear.solving.wide_steps import WIDE, factored_step, step_within

FLAT = 1e-13
"""A predicted decrease below this, relative to the value, is rounding error."""
ENOUGH = 1e-10
"""A promised decrease, relative to the value, after which no further Hessian is worth its time."""
SETTLED = 1e-9
"""A minimum is converged when Newton's model promises less than this, relatively."""
SAME = 1e-4
"""Minima closer than this, in units of the problem, are one."""
UNDERFLOW = 1e-280
"""Squares below this have lost digits: where all risks are 0, so is the unit of length."""
FAR = 1e9
"""An iterate this far from its start, in units of the problem, has run away."""


@dataclass(frozen=True, eq=False)
class Optimality:
    """The proof that a predictor minimises a convex measure, and how exact it is.

    The mean, the superquantile and the largest risk are the largest Σ λ_e R_e over weights that
    sum to 1, none above a limit: 1/m, 1/((1−α)m), 1. If θ minimises Σ λ_e R_e plus the penalty
    for some such ``weights`` λ (m,), and Σ λ_e R_e is the measure itself, then no other predictor
    has a smaller value. ``stationarity`` is the length of the gradient of Σ λ_e R_e plus the
    penalty, ``gap`` the measure less Σ λ_e R_e, both in units of the problem, in which the mean
    risk is about 1.
    """

    weights: Array
    stationarity: float
    gap: float

    @property
    def residual(self) -> float:
        """The larger of the two failures."""
        return max(self.stationarity, abs(self.gap))


@dataclass(frozen=True)
class End:
    """Where a descent ended; of a convex measure also the proof of the minimum."""

    theta: Array
    value: float
    converged: bool
    diverged: bool
    steps: int
    optimality: Optimality | None = None


@dataclass(frozen=True)
class ParameterMetric:
    """Coordinates τ = Lᵀθ in which θᵀ(LLᵀ)θ is |τ|², and the units of length and of value.

    ``root`` is L and ``inverse`` L⁻ᵀ, once and for all: solving with L at every step costs more
    than everything else in small problems.
    """

    root: Array
    inverse: Array
    length: float
    value: float

    @classmethod
    def of(cls, matrix: Array, value: float) -> ParameterMetric:
        """The metric θᵀMθ, with √value as the unit of length."""
        root = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        inverse = solve_triangular(root, np.eye(len(root)), lower=True).T
        return cls(root, np.ascontiguousarray(inverse), math.sqrt(value), value)

    @cached_property
    def matrix(self) -> Array:
        """LLᵀ."""
        return self.root @ self.root.T

    def model(self, point: Point) -> tuple[Array, Array]:
        """Gradient and Hessian in τ."""
        hessian = self.inverse.T @ point.hessian @ self.inverse
        return point.gradient @ self.inverse, 0.5 * (hessian + hessian.T)

    def norm(self, theta: Array) -> float:
        """|τ|; that of θ itself where the metric was not computed, for very many parameters."""
        tau = self.root.T @ theta if len(self.root) == len(theta) else theta
        return float(np.linalg.norm(tau))


@np.errstate(over="ignore", invalid="ignore")  # what overflows is not stepped to
def minimise(
    criterion: MeasureOfRisks,
    start: Array,
    metric: ParameterMetric,
    max_steps: int,
    enough: float = 0.0,
    known: End | None = None,
) -> End:
    """Descend from ``start`` until nothing can be gained, or less than ``enough`` of the value.

    A descent that comes to a minimum that is ``known``, from above, ends in it: into a kink there
    would be some 50 further steps.
    """
    point = criterion.at(start)
    if not _is_finite(point):
        return End(point.theta, math.inf, False, False, 0)
    radius, steps = metric.length, 0
    while steps < max_steps:
        steps += 1
        step, predicted, length = _step(point, metric, radius)
        unit = max(abs(point.value), metric.value)
        trial = criterion.at(point.theta + step)
        if predicted <= enough * unit and settled(point, metric):
            last = trial if trial.value <= point.value + FLAT * abs(point.value) else point
            return End(last.theta, last.value, True, False, steps)
        if predicted <= FLAT * unit:
            if not _gentler(trial, point, metric):
                break
            point = trial
            continue
        gained = _gained(point, trial, predicted)
        radius = _next_radius(radius, gained, length)
        if gained > 1e-4:
            point = trial
            if known is not None and _leads_to(known, point, metric):
                return replace(known, steps=steps)
        if metric.norm(point.theta - start) > FAR * metric.length:
            return End(point.theta, point.value, False, True, steps)
        if radius < 1e-15 * (metric.length + metric.norm(point.theta)):
            break
    return End(point.theta, point.value, settled(point, metric), False, steps)


minimise_costly = partial(minimise, enough=ENOUGH)
"""For criteria whose Hessian takes time. Newton's error is squared by each step, so what is left
after the last one is rounding."""


def _leads_to(known: End, point: Point, metric: ParameterMetric) -> bool:
    """Whether a point is at a minimum that is known, and not below it."""
    near = metric.norm(point.theta - known.theta) < SAME * metric.length
    return near and point.value >= known.value


def _next_radius(radius: float, gained: float, length: float) -> float:
    """Shorter where the model was wrong, longer where it was right up to the radius."""
    if gained < 0.25:
        return 0.25 * length
    return 3.0 * radius if gained > 0.75 and length > 0.9 * radius else radius


def _gained(point: Point, trial: Point, predicted: float) -> float:
    """The decrease, as a part of what was predicted; −1 where the next step could not be made."""
    if not math.isfinite(trial.value):
        return -1.0
    gained = (point.value - trial.value) / predicted
    return gained if gained <= 1e-4 or _is_finite(trial) else -1.0


def _is_finite(point: Point) -> bool:
    """Whether value, slope and curvature can be used."""
    return (
        math.isfinite(point.value)
        and bool(np.isfinite(point.gradient).all())
        and bool(np.isfinite(point.hessian).all())
    )


def _step(point: Point, metric: ParameterMetric, radius: float) -> tuple[Array, float, float]:
    """A step in θ, the decrease that the quadratic model promises, and its length in τ."""
    newton = newton_step(point)
    if newton is not None:
        length = metric.norm(newton)
        if length <= radius:
            return newton, -0.5 * float(point.gradient @ newton), length
    if len(point.theta) > WIDE:
        definite = newton is not None
        found = step_within(point.gradient, point.hessian, metric.matrix, radius, definite)
        if found is not None:
            return found
    step, predicted = model_minimum(*metric.model(point), radius)
    return metric.inverse @ step, predicted, float(np.linalg.norm(step))


def newton_step(point: Point) -> Array | None:
    """−H⁻¹g where H is positive definite, else None.

    In the coordinates of θ, where factors keep their digits however different the scales of the
    parameters are: at log(1−α) = −1e30 the Hessian has entries of 1 and of 1e15.
    """
    if len(point.theta) > WIDE:
        return factored_step(point.gradient, point.hessian)
    try:
        root = np.linalg.cholesky(point.hessian)
        step: Array = -np.linalg.solve(root.T, np.linalg.solve(root, point.gradient))
    except np.linalg.LinAlgError:
        return None
    return step if bool(np.isfinite(step).all()) else None


def _gentler(trial: Point, point: Point, metric: ParameterMetric) -> bool:
    """Whether a step too short to show in the value still halves the gradient."""
    if not math.isfinite(trial.value):
        return False
    before, after = (float(np.linalg.norm(p.gradient @ metric.inverse)) for p in (point, trial))
    return after < 0.5 * before


def settled(point: Point, metric: ParameterMetric) -> bool:
    """Whether the point is a minimum to second order."""
    step = newton_step(point)
    unit = max(abs(point.value), metric.value)
    if step is not None:
        return -0.5 * float(point.gradient @ step) <= SETTLED * unit
    gradient, hessian = metric.model(point)
    eigenvalues, vectors = np.linalg.eigh(hessian)
    largest = float(np.abs(eigenvalues).max())
    if float(eigenvalues.min()) < -1e-7 * largest:
        return False
    along = vectors.T @ gradient
    promise = 0.5 * float(np.sum(along**2 / np.maximum(eigenvalues, 1e-12 * largest + 1e-300)))
    return promise <= SETTLED * unit


def model_minimum(gradient: Array, hessian: Array, radius: float) -> tuple[Array, float]:
    """The step of at most ``radius`` that minimises gᵀs + ½sᵀHs, and the decrease it promises."""
    eigenvalues, vectors = np.linalg.eigh(hessian)
    along = vectors.T @ gradient
    step = _within(eigenvalues, along, radius)
    promised = -float(along @ step + 0.5 * eigenvalues @ (step * step))
    return vectors @ step, promised


def _within(eigenvalues: Array, along: Array, radius: float) -> Array:
    """The same in the basis of eigenvectors, smallest eigenvalue first."""
    smallest, largest = float(eigenvalues[0]), float(np.abs(eigenvalues).max())
    floor = max(0.0, -smallest) + 1e-14 * largest + 1e-300
    shift = 0.0 if smallest > 1e-14 * largest else floor
    step: Array = -along / (eigenvalues + shift)
    length = float(np.linalg.norm(step))
    if length <= radius:
        if shift > 0.0 and smallest < 0.0:  # the gradient has no part along the worst curvature
            step[0] += math.copysign(math.sqrt(radius**2 - length**2), step[0])
        return step
    # 1/|s(μ)| is concave and nearly linear in μ, so Newton on it needs a few steps.
    for _ in range(60):
        shifted = eigenvalues + shift
        step = -along / shifted
        length = float(np.linalg.norm(step))
        if abs(length - radius) <= 1e-3 * radius:
            break
        if length**2 < UNDERFLOW:
            break
        steepness = float(np.sum(step**2 / shifted)) / length**2
        shift = max(floor, shift + (length / radius - 1.0) / steepness)
    return step * min(1.0, radius / length)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block with one thread of BLAS and, where loaded, of torch; then restore what was."""
    torch, before = sys.modules.get("torch"), thread_count()
    with _controller().limit(limits=1, user_api="blas"):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
