"""The superquantile of convex risks, minimised to optimality and with a proof of it.

The superquantile of the empirical law is the largest weighted mean of the risks in which no
weight exceeds c = 1/((1−α)m) (Rockafellar & Uryasev 2000): the mean at c = 1/m, the largest risk
from c = 1 on. Of convex risks R_e it is convex, and the program

    min  t + c Σ s_e + Σ l2_j θ_j²    such that  s_e ≥ 0,  s_e ≥ R_e(θ) − t

has a dual with one multiplier λ_e in [0, c] per domain. At a solution the λ sum to 1, Σ λ_e R_e
is the superquantile, and θ minimises Σ λ_e R_e plus the penalty: λ are weights with which ERM
finds the same predictor, and the certificate that no other has a smaller superquantile.

Solved by a primal-dual interior-point method with Mehrotra's predictor and corrector. With slacks
u_e = s_e − R_e + t and ν_e = c − λ_e, Newton's method follows λ_e u_e = ν_e s_e = μ as μ goes
to 0. Everything is in the units of the problem: risks in V, parameters as τ = Lᵀθ/√V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from eqrm.linear.solving.measures import MeasureOfRisks
from eqrm.linear.solving.newton import End, Optimality, ParameterMetric
from eqrm.linear.solving.risk_functions import Array

ACCURATE = 1e-11
"""The residual, in units of the problem, at which to stop."""
ENOUGH = 1e-8
"""The residual with which a solution that cannot be improved still counts as converged."""
NEVER_BINDS = 2.0
"""Weights that sum to 1 cannot exceed 1, so a larger limit changes nothing."""
INSIDE = 0.995
"""The part of the way to the nearest bound that a step may take."""
KEPT = 0.01
"""The sum of the products is kept above this part of the other failures."""
SHORTEST = 1e-9
"""The part of a step below which no progress is possible."""


@dataclass(frozen=True, eq=False)
class _Variables:
    """τ (p,), t, and s, u, λ, ν (m,); also a step in each of them."""

    tau: Array
    threshold: float
    excess: Array
    slack: Array
    weights: Array
    spare: Array

    def moved(self, step: _Variables, part: float) -> _Variables:
        """After part of a step."""
        pairs = zip(vars(self).values(), vars(step).values(), strict=True)
        return _Variables(*(value + part * change for value, change in pairs))

    @property
    def products(self) -> Array:
        """λu and νs (2m,), which are 0 at a solution."""
        return np.concatenate([self.weights * self.slack, self.spare * self.excess])

    def room(self, step: _Variables) -> float:
        """The largest part of a step, at most 1, that violates no bound."""
        bounded = ("excess", "slack", "weights", "spare")
        steepest = max(float((-getattr(step, n) / getattr(self, n)).max()) for n in bounded)
        return 1.0 if steepest <= 1.0 else 1.0 / steepest


class _Iterate:
    """Variables, the risks there, and by how much each condition of optimality fails."""

    def __init__(self, program: _Program, variables: _Variables) -> None:
        self.program, self.variables = program, variables
        v = variables
        self.at = program.criterion.risks.at(program.basis @ v.tau)
        self.risks: Array = (self.at.mean + self.at.spread) / program.value
        mean_slope, slopes = self.at.slopes
        self.slopes: Array = (mean_slope + slopes) @ program.basis / program.value
        self.stationary: Array = v.weights @ self.slopes + program.penalty @ v.tau
        self.total = 1.0 - float(v.weights.sum())
        self.feasible: Array = v.slack - (v.excess - self.risks + v.threshold)
        self.products = v.products

    @property
    def mu(self) -> float:
        """The mean of the products λu and νs."""
        return float(self.products.mean())

    @property
    def failure(self) -> float:
        """The largest failure of the conditions other than the products."""
        failures = (np.abs(self.stationary).max(), abs(self.total), np.abs(self.feasible).max())
        return float(max(failures))

    @property
    def residual(self) -> float:
        """The largest failure; of the products their sum, by which the objective is too large."""
        return max(self.failure, float(self.products.sum()))

    def distance(self, mu: float) -> float:
        """The length of all failures, where products should be μ; NaN where a risk overflows.

        Per domain, in units of risk: weights are about 1/m, so that products are multiplied by m.
        """
        m = len(self.risks)
        away = m * (self.products - mu)
        of_domains = (float(self.feasible @ self.feasible) + float(away @ away)) / m
        return math.sqrt(float(self.stationary @ self.stationary) + of_domains + self.total**2)


class _Program:
    """The program of a criterion in the units of its metric."""

    def __init__(self, criterion: MeasureOfRisks, limit: float, metric: ParameterMetric) -> None:
        self.criterion, self.value = criterion, metric.value
        self.limit = min(limit, NEVER_BINDS)
        p = criterion.risks.parameters
        # With very many parameters there is no metric: their features are standardised.
        inverse = metric.inverse if len(metric.inverse) == p else np.eye(p)
        self.basis: Array = inverse * math.sqrt(self.value)
        self.inverse_basis = metric.root.T if len(metric.root) == p else np.eye(p)
        self.penalty: Array = 2.0 * (self.basis.T * criterion.l2) @ self.basis / self.value
        # A perfect fit has risks of rounding errors, in which no accuracy can be had.
        self.rounding = 1e-15 * abs(criterion.risks.at(np.zeros(p)).mean) / self.value

    def start(self, theta: Array) -> _Iterate:
        """Equal weights, and slacks of the size of the risks' spread."""
        tau = self.inverse_basis @ theta / math.sqrt(self.value)
        at = self.criterion.risks.at(theta)
        risks = (at.mean + at.spread) / self.value
        m = len(risks)
        threshold = float(np.sort(risks)[max(0, m - math.ceil(min(1.0 / self.limit, m)))])
        unit = max(float(np.std(risks)), 1e-3 * float(np.abs(risks).max()), 1e-12)
        excess = np.maximum(risks - threshold, 0.0) + unit
        slack, weights = excess - risks + threshold, np.full(m, 1.0 / m)
        spare = self.limit - weights
        return _Iterate(self, _Variables(tau, threshold, excess, slack, weights, spare))


class _NewtonSystem:
    """The linear equations of one step, factored once for predictor and corrector."""

    def __init__(self, at: _Iterate) -> None:
        v = at.variables
        self.at = at
        self.stiffness: Array = 1.0 / (v.slack / v.weights + v.excess / v.spare)
        basis = at.program.basis
        curved = basis.T @ at.at.weighted_hessian(v.weights) @ basis / at.program.value
        curved += at.program.penalty
        weighted = at.slopes * self.stiffness[:, None]
        p = len(v.tau)
        matrix = np.empty((p + 1, p + 1))
        matrix[:p, :p] = curved + weighted.T @ at.slopes
        matrix[:p, p] = matrix[p, :p] = -weighted.sum(axis=0)
        matrix[p, p] = self.stiffness.sum()
        self.factor = _factored(matrix, float(np.trace(curved)) / p)

    def step(self, mu: float, bend: Array | float = 0.0) -> _Variables:
        """Towards products of μ, less the second-order terms ``bend`` of a predicted step."""
        at, v, d = self.at, self.at.variables, self.stiffness
        wanted = mu - bend - at.products
        of_slack, of_excess = np.split(wanted, 2)
        b = d * (of_slack / v.weights - of_excess / v.spare + at.feasible)
        right = np.append(-at.stationary - b @ at.slopes, b.sum() - at.total)
        found = cho_solve(self.factor, right, check_finite=False)
        tau, threshold = found[:-1], float(found[-1])
        along = at.slopes @ tau
        weights = b + d * (along - threshold)
        excess = (of_excess + v.excess * weights) / v.spare
        slack = excess - along + threshold - at.feasible
        return _Variables(tau, threshold, excess, slack, weights, -weights)


def _factored(matrix: Array, size: float) -> tuple[Array, bool]:
    """Cholesky's factor, with as little added to the diagonal as it needs."""
    added, largest = 1e-15 * size + 1e-300, float(matrix.diagonal().max())
    while added < largest:
        try:
            with_more = matrix + added * np.eye(len(matrix))
            factor: tuple[Array, bool] = cho_factor(with_more, check_finite=False)
            return factor
        except np.linalg.LinAlgError:
            added = max(100.0 * added, 1e-16 * largest)
    raise np.linalg.LinAlgError("not finite")


def minimise_superquantile(
    criterion: MeasureOfRisks, limit: float, start: Array, metric: ParameterMetric, max_steps: int
) -> End:
    """Minimise the largest Σ λ_e R_e over weights of at most ``limit`` each, plus the penalty.

    From any start; one near the solution saves steps. Around 10 are taken, with one Hessian each.
    """
    program = _Program(criterion, limit, metric)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not stepped to
        here, steps = program.start(start), 0
        best = here
        while steps < max_steps and here.residual > max(ACCURATE, program.rounding):
            steps += 1
            after = _next(here)
            if after is None:
                break
            here = after
            if here.residual < best.residual:
                best = here
    theta, weights = program.basis @ best.variables.tau, best.variables.weights
    proof = _proof(criterion, theta, np.minimum(weights / weights.sum(), limit), metric)
    converged = proof.residual <= max(ENOUGH, 10.0 * program.rounding)
    return End(theta, criterion.at(theta).value, converged, False, steps, proof)


def _next(here: _Iterate) -> _Iterate | None:
    """After one step, or None where rounding leaves no way forward."""
    try:
        system = _NewtonSystem(here)
    except np.linalg.LinAlgError:
        return None
    predicted = system.step(0.0)
    reach = here.variables.room(predicted)
    left = float(here.variables.moved(predicted, reach).products.mean())
    # Products that vanish before the other conditions hold would leave no room for steps.
    least = KEPT * here.failure / len(here.products)
    mu = max(here.mu * min(1.0, left / here.mu) ** 3, least)
    found = _along(here, system.step(mu, predicted.products), mu, shortest=0.1)
    if found is not None:
        return found
    mu = max(0.1 * here.mu, least)
    return _along(here, system.step(mu), mu, shortest=SHORTEST)


def _along(here: _Iterate, step: _Variables, mu: float, shortest: float) -> _Iterate | None:
    """The longest part of a step, halved as often as needed, that fails the conditions less."""
    before = here.distance(mu)
    part = min(1.0, INSIDE * here.variables.room(step))
    while part > shortest:
        trial = _Iterate(here.program, here.variables.moved(step, part))
        if trial.distance(mu) <= (1.0 - 1e-3 * part) * before:
            return trial
        part *= 0.5
    return None


def proved_mean(criterion: MeasureOfRisks, end: End, metric: ParameterMetric) -> End:
    """Where a descent on a mean of the risks ended, with the proof of the minimum."""
    at = criterion.risks.at(end.theta)
    weights = criterion.measure.at(at.mean, at.spread).slope
    return replace(end, optimality=_proof(criterion, end.theta, weights, metric))


def _proof(
    criterion: MeasureOfRisks, theta: Array, weights: Array, metric: ParameterMetric
) -> Optimality:
    """What these weights prove of θ."""
    at, total = criterion.risks.at(theta), float(weights.sum())
    mean_slope, slopes = at.slopes
    gradient = total * mean_slope + weights @ slopes + 2.0 * criterion.l2 * theta
    if len(metric.inverse) == len(theta):
        gradient = gradient @ metric.inverse
    gap = criterion.measure.at(at.mean, at.spread).value
    gap -= total * at.mean + float(weights @ at.spread)
    return Optimality(weights, float(np.linalg.norm(gradient)) / metric.length, gap / metric.value)
