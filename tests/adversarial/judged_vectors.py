"""What is wrong with the quantiles that a KDE gives for fuzzed risk vectors, by each road.

All vectors of a batch are looked at together, with half of what is allowed, and those that stand
out one by one.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_ndtr, logsumexp, softmax

import eqrm
from adversarial.risk_vectors import WITHOUT_TIES, Batch, Floats
from adversarial.roads import (
    Answer,
    Answers,
    Places,
    in_float64,
    of_batch,
    of_estimates,
    of_solver,
)
from eqrm.distributions.kde.sums import NARROWEST

ALONE = 10
"""So many vectors of each batch are also estimates of their own, on every road."""
OF_THE_SCALE = 1e-10
LAST_DIGITS = 4e-15
"""To which log S is right."""


@dataclass
class Report:
    """How many vectors were tried, what became of them, and what went wrong."""

    vectors: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Count another report in."""
        self.vectors += other.vectors
        self.outcomes += other.outcomes
        self.problems += other.problems

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.outcomes.items()))
        return f"{self.vectors:,} vectors: {counts}; {len(self.problems)} problems"


def _log_error(batch: Batch, place: int, level: eqrm.Level, quantile: float) -> float:
    """|log S(q) − log(1−α)| (of the lower tail under ½) from the definition."""
    own = batch.weights_of(place)
    weights = None if own is None else torch.from_numpy(own)
    estimate = eqrm.KDE(batch.risks[place].double(), batch.bandwidth, weights=weights)
    sign, target = (1.0, level.log_tail) if level.alpha >= 0.5 else (-1.0, level.log_alpha)
    risks, h, few = estimate.risks.numpy(), float(estimate.bandwidth), 4.0 * math.ulp(quantile)
    errors = []
    for value in (quantile - few, quantile, quantile + few):
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            z = sign * (risks - value) / h
            found = logsumexp(np.log(estimate.weights.numpy()) + log_ndtr(z))
        errors.append((float(found) - target) / max(1.0, -target))
    # Kernels may be narrower than what separates two floats: S is right between them.
    return 0.0 if min(errors) <= 0.0 <= max(errors) else min(map(abs, errors))


def _root(centres: Floats, log_weights: Floats, goal: float, farthest: float) -> float:
    """t with log Σ p_i Φ(y_i − t) = goal, by halving."""
    low, high = float(centres.min()) - 2.0 * farthest, float(centres.max()) + 2.0 * farthest
    middle = 0.5 * (low + high)
    while low < middle < high:
        above = logsumexp(log_weights + log_ndtr(centres - middle)) > goal
        low, high = (middle, high) if above else (low, middle)
        middle = 0.5 * (low + high)
    return low


def _any(refused: list[str]) -> npt.NDArray[np.bool_]:
    return np.array([bool(each) for each in refused], dtype=bool)


def _sizes(gradients: Floats) -> Floats:
    sizes: Floats = np.maximum(1.0, np.abs(gradients).max(1))
    return sizes


def _unsure(batch: Batch) -> Floats:
    """What is left of the digits of σ̂ where one domain has nearly all the weight: σ̂² ∝ 1/(1−Σp²).

    1 − Σp² is as exact as 1 is, and weights that each row has for itself are divided by their sum
    in another order.
    """
    rows, m = batch.risks.shape
    if batch.weights is None or m == 1 or not isinstance(batch.bandwidth, str):
        return np.zeros(rows)
    weights = np.broadcast_to(batch.weights, (rows, m))
    shares = np.sort(weights / weights.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    others = shares[:, :-1].sum(1)
    apart = others * (1.0 + shares[:, -1]) - (shares[:, :-1] ** 2).sum(1)
    found: Floats = 4.0 * np.finfo(np.float64).eps / np.maximum(apart, 1e-12)
    return found


class Judge:
    """Compares the answers for one batch and collects what is wrong."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.report = Report(vectors=len(batch.risks))
        self.rows = batch.risks.double().numpy()
        self.present = np.ones(self.rows.shape, dtype=bool)
        if batch.weights is not None:
            self.present &= batch.weights > 0.0
        self.lowest = np.where(self.present, self.rows, math.inf).min(1)
        self.highest = np.where(self.present, self.rows, -math.inf).max(1)
        self.unsure = _unsure(batch)
        self.slack = self.least = 0.0
        if batch.risks.dtype != torch.float64:
            self.slack = 2.0 * torch.finfo(batch.risks.dtype).eps
            self.least = 2.0 * torch.finfo(batch.risks.dtype).smallest_normal * self.slack

    def complain(self, what: str, place: int, *details: object) -> None:
        """Note a problem of one vector."""
        own = self.batch.weights_of(place)
        weights = None if own is None else own.tolist()
        told = f"{what} at row {place} of {self.batch}: {details}"
        self.report.problems.append(f"{told}; risks {self.rows[place].tolist()}, weights {weights}")

    def share(self, tolerance: float | Floats, places: Places, values: Floats) -> Floats:
        """Of the spread of risks and quantile, and what rounding of the largest number allows."""
        low = np.fmin(self.lowest[places], values)
        high = np.fmax(self.highest[places], values)
        rounding = 2.0 * np.spacing(0.5 * np.maximum(np.abs(low), np.abs(high)))
        found: Floats = tolerance * high - tolerance * low + tolerance / OF_THE_SCALE * 8 * rounding
        return found

    def allowed(self, places: Places, values: Floats, others: Floats, roads: str) -> Floats:
        """By how much the values of two roads may differ."""
        # In tensors, quartiles of very unequal weights are rounded in another order.
        quartiles = str(self.batch.bandwidth).startswith("silverman")
        rounded = "tensors" in roads and quartiles and self.batch.weights is not None
        tolerance = 1e-8 if rounded else OF_THE_SCALE
        largest = np.fmax(np.abs(values), np.abs(others))
        found: Floats = self.share(tolerance + self.unsure[places], places, values)
        return found + self.slack * largest + self.least

    @property
    def without_ties(self) -> bool:
        """Whether no two risks, or distances, are equal: gradients are then the same."""
        outlier = self.batch.kind == "one outlier"  # to which distances may be rounded alike
        rounded = outlier and self.batch.bandwidth == "median"
        return self.batch.kind in WITHOUT_TIES and not rounded

    def each(self, places: Places, answers: Answers) -> None:
        """Values and gradients that are numbers of the right type, or refusals."""
        dtypes = [dtype == self.batch.risks.dtype for dtype in answers.dtypes]
        right = np.isfinite(answers.values) & ~_any(answers.refused) & np.array(dtypes)
        right &= np.isfinite(answers.gradients).all(1)
        if not self.slack:
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs(answers.gradients.sum(1) - 1.0)
            right &= error <= 0.5e-9 * _sizes(answers.gradients)
        self.report.outcomes["solved"] += int(right.sum())
        for number in np.flatnonzero(~right):
            self.one(int(places[number]), answers[number])

    def pairs(
        self, places: Places, level: eqrm.Level, some: Answers, others: Answers, roads: str
    ) -> None:
        """Two roads to the same quantiles."""
        allowed = 0.5 * self.allowed(places, some.values, others.values, roads)
        alike = np.abs(some.values - others.values) <= allowed
        alike &= ~(_any(some.refused) | _any(others.refused))
        if not self.slack and self.without_ties:
            apart = np.abs(some.gradients - others.gradients).max(1)
            alike &= apart <= 0.5 * (1e-8 + self.unsure[places]) * _sizes(some.gradients)
        for number in np.flatnonzero(~alike):
            self.pair(int(places[number]), level, some[number], others[number], roads)

    def ascending(self, lower: Answers, upper: Answers) -> None:
        """All vectors at both levels."""
        falls = ~(upper.values >= lower.values)
        for place in np.flatnonzero(falls):
            self.monotone(int(place), [lower[place], upper[place]])

    def one(self, place: int, answer: Answer) -> None:
        """A value and a gradient that are numbers of the right type, or a refusal."""
        if answer.refused:
            self.report.outcomes["refused"] += 1
            if "too large" not in answer.refused and "must be finite" not in answer.refused:
                self.complain("odd refusal", place, answer.refused)
            return
        self.report.outcomes["solved"] += 1
        if answer.dtype != self.batch.risks.dtype:
            self.complain("dtype", place, answer.dtype)
        if not (math.isfinite(answer.value) and np.isfinite(answer.gradient).all()):
            self.complain("not finite", place, answer.value, answer.gradient.tolist())
        elif not self.slack:
            # A shift of all risks shifts the quantile.
            error = abs(math.fsum(answer.gradient) - 1.0)
            if error > 1e-9 * max(1.0, float(np.abs(answer.gradient).max())):
                self.complain("gradient does not add up", place, answer.gradient.tolist())

    def pair(self, place: int, level: eqrm.Level, one: Answer, other: Answer, roads: str) -> None:
        """Two roads to the same quantile."""
        if bool(one.refused) != bool(other.refused):
            # Tensors refuse risks whose distances, or the sum of these, are too large to be
            # numbers, even if their quantile is one.
            distance = 0.5 * self.highest[place] - 0.5 * self.lowest[place]
            if not ("tensors" in roads and distance > 0.5e308 / self.batch.risks.shape[-1]):
                self.complain(f"{roads}: refused once", place, level, one, other)
            return
        if one.refused:
            return
        value, another = np.array([one.value]), np.array([other.value])
        if abs(one.value - other.value) > self.allowed(np.array([place]), value, another, roads):
            # In a gap between risks any value is right for which S is: before it is rounded.
            values = [one.value, other.value]
            if self.slack:
                values = [
                    in_float64(self.batch, place, level, road) for road in roads.split(" and ")
                ]
            errors = [_log_error(self.batch, place, level, value) for value in values]
            if max(errors) > 1e-12:
                self.complain(f"{roads}: values", place, level, one.value, other.value, errors)
            else:
                self.report.outcomes["in gaps"] += 1
        elif not self.slack and self.without_ties:
            largest = max(1.0, float(np.abs(one.gradient).max()))
            apart = float(np.abs(one.gradient - other.gradient).max()) / largest
            bound = 1e-8 + self.unsure[place]
            if apart > bound and not apart <= bound + self.moved(place, level, one.value):
                self.complain(
                    f"{roads}: gradients",
                    place,
                    level,
                    one.gradient.tolist(),
                    other.gradient.tolist(),
                )

    def moved(self, place: int, level: eqrm.Level, value: float) -> float:
        """By how much gradients differ between values for which S is the same to its last digits.

        Values are told by their distance to the nearest risk, which may be finer than they are.
        """
        own, present = self.batch.weights_of(place), self.present[place]
        weights = None if own is None else torch.from_numpy(own)
        leaf = self.batch.risks[place].double().requires_grad_()
        estimate = eqrm.KDE(leaf, self.batch.bandwidth, weights=weights)
        h, slope = estimate.bandwidth, 0.0
        if h.requires_grad:
            slope = float(torch.autograd.grad(h, leaf)[0].abs().max())
        row = leaf.detach().numpy()[present]
        distances = row - row[np.abs(row - value).argmin()]
        centres = distances / max(h.item(), NARROWEST * float(np.abs(distances).max()))
        shares = np.log(estimate.weights.numpy()[present])
        sign, target = (1.0, level.log_tail) if level.alpha >= 0.5 else (-1.0, level.log_alpha)
        found = []
        for slack in (-LAST_DIGITS, LAST_DIGITS):
            goal = target + slack * max(1.0, -target)
            z = _root(sign * centres, shares, goal, abs(level.z)) - sign * centres
            nearest = z[np.abs(z).argmin()]
            kernels = softmax(shares - 0.5 * (z - nearest) * (z + nearest))
            found.append((kernels, float(kernels @ z)))
        (one, one_z), (other, other_z) = found
        return float(np.abs(one - other).max()) + abs(one_z - other_z) * slope

    def monotone(self, place: int, answers: list[Answer]) -> None:
        """The second level is above the first."""
        low, high = answers
        if low.refused or high.refused:
            return
        allowed = self.share(1e-13, np.array([place]), np.array([low.value])).item()
        allowed += self.slack * abs(low.value) + self.least
        if high.value < low.value - allowed:
            self.complain("not monotone", place, low.value, high.value)


def judged(batch: Batch, alone: int = ALONE) -> Report:
    """All checks of one batch.

    In tensors at both levels. At one of them with the C part and without it: rows of a tensor that
    were left to the solver of single rows, which uses the C part, are compared with that solver in
    numpy, and the others with the solver in C. Some vectors are estimates of their own, too.
    """
    judge, level = Judge(batch), batch.levels[batch.seed % 2]
    together = [of_batch(batch, each) for each in batch.levels]
    for answers in together:
        judge.each(np.arange(len(batch.risks)), answers)
    judge.ascending(*together)
    chosen = together[batch.seed % 2]
    in_c, in_tensors = chosen.part(range(len(batch.risks))), ~chosen.by_itself
    places = np.flatnonzero(in_tensors)
    if places.size:
        found = of_solver(batch.part(places), level, "C")
        judge.each(places, found)
        in_c.put(places, found)
    # Risks so small that in tensors their bandwidth is rounded to few digits.
    tiny = np.abs(judge.rows).max(1) < 1e-290
    places = np.flatnonzero(~in_tensors | tiny)
    if places.size:
        found = of_solver(batch.part(places), level, "numpy")
        judge.each(places, found)
        judge.pairs(places, level, in_c.part(places), found, "C and numpy")
    places = np.flatnonzero(in_tensors & ~tiny)
    judge.pairs(places, level, in_c.part(places), chosen.part(places), "C and tensors")
    if alone:
        places = np.arange(min(alone, len(batch.risks)))
        judge.report.outcomes["vectors also by themselves"] += len(places)
        some = [of_estimates(batch.part(places), level, road) for road in ("C", "numpy")]
        for answers in some:
            judge.each(places, answers)
        judge.pairs(places, level, some[0], some[1], "C and numpy")
        seen = places[~tiny[places]]
        judge.pairs(seen, level, some[0].part(seen), chosen.part(seen), "C and tensors")
    return judge.report
