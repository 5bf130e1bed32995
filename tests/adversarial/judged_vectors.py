"""What the quantile of a KDE gives for fuzzed risk vectors, by each road, and what is wrong."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np
import torch
from scipy.special import log_ndtr, logsumexp, softmax
from torch import Tensor

import eqrm
from adversarial.risk_vectors import WITHOUT_TIES, Batch, Floats
from eqrm.distributions.kde import native
from eqrm.distributions.kde.sums import NARROWEST
from eqrm.errors import DomainDataError

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


@dataclass
class Answer:
    """A quantile and its gradient, or the refusal of one."""

    value: float
    gradient: Floats
    refused: str = ""
    dtype: torch.dtype | None = None


def _quantile(batch: Batch, risks: Tensor, level: eqrm.Level) -> tuple[Tensor, Tensor]:
    """Quantiles, and the risks that they can be differentiated by."""
    leaf = risks.detach().clone().requires_grad_()
    weights = None if batch.weights is None else torch.from_numpy(batch.weights)
    return eqrm.KDE(leaf, batch.bandwidth, weights=weights).quantile(level), leaf


def of_rows(batch: Batch, level: eqrm.Level, road: str) -> list[Answer]:
    """Each vector on its own, with the C part or in numpy; differentiated together, which is fast.

    A batch in which a gradient is refused only when it is asked for is differentiated one by one.
    """
    library = None if road == "numpy" else native.LIBRARY
    answers: list[Answer | None] = []
    asked: list[tuple[Tensor, Tensor]] = []
    with mock.patch.object(native, "LIBRARY", library):
        for row in batch.risks:
            try:
                asked.append(_quantile(batch, row, level))
                answers.append(None)
            except DomainDataError as error:
                answers.append(Answer(math.nan, np.empty(0), str(error)))
        try:
            solved = iter(_differentiated(asked))
        except DomainDataError:
            solved = iter([_differentiated_alone(*each) for each in asked])
    return [next(solved) if answer is None else answer for answer in answers]


def _differentiated(asked: list[tuple[Tensor, Tensor]]) -> list[Answer]:
    if not asked:
        return []
    values, leaves = zip(*asked, strict=True)
    found = []
    for value, gradient in zip(values, torch.autograd.grad(values, leaves), strict=True):
        dtype = value.dtype if value.dtype == gradient.dtype else None
        found.append(Answer(value.item(), gradient.double().numpy(), "", dtype))
    return found


def _differentiated_alone(value: Tensor, leaf: Tensor) -> Answer:
    try:
        (answer,) = _differentiated([(value, leaf)])
    except DomainDataError as error:
        return Answer(math.nan, np.empty(0), str(error))
    return answer


def of_batch(batch: Batch, level: eqrm.Level) -> list[Answer] | None:
    """All vectors as rows of one tensor; None where any is refused."""
    try:
        values, leaf = _quantile(batch, batch.risks, level)
        (gradients,) = torch.autograd.grad(values.sum(), leaf)
    except DomainDataError:
        return None
    return [
        Answer(value.item(), gradient.double().numpy(), "", values.dtype)
        for value, gradient in zip(values, gradients, strict=True)
    ]


def _in_float64(batch: Batch, place: int, level: eqrm.Level, road: str) -> float:
    """The quantile of one row before it is rounded to its dtype."""
    wide = replace(batch, risks=batch.risks[place : place + 1].double())
    (answer,) = of_batch(wide, level) or [] if road == "tensors" else of_rows(wide, level, road)
    return answer.value


def _log_error(batch: Batch, place: int, level: eqrm.Level, quantile: float) -> float:
    """|log S(q) − log(1−α)| (of the lower tail under ½) from the definition."""
    weights = None if batch.weights is None else torch.from_numpy(batch.weights)
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


class Judge:
    """Compares the answers for one batch and collects what is wrong."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.report = Report(vectors=len(batch.risks))
        self.present = slice(None) if batch.weights is None else np.flatnonzero(batch.weights)
        self.slack = self.least = 0.0
        if batch.risks.dtype != torch.float64:
            self.slack = 2.0 * torch.finfo(batch.risks.dtype).eps
            self.least = 2.0 * torch.finfo(batch.risks.dtype).smallest_normal * self.slack

    def complain(self, what: str, place: int, *details: object) -> None:
        """Note a problem of one vector."""
        row = self.batch.risks[place].double().tolist()
        weights = None if self.batch.weights is None else self.batch.weights.tolist()
        told = f"{what} at row {place} of {self.batch}: {details}; risks {row}, weights {weights}"
        self.report.problems.append(told)

    def scale(self, row: Floats, value: float) -> float:
        """The spread of risks and quantile, and what rounding of the largest number allows."""
        with np.errstate(over="ignore"):
            numbers = np.append(row[self.present], value)
            spread = float(numbers.max() - numbers.min())
        return spread + math.ulp(float(np.abs(numbers).max())) / OF_THE_SCALE * 8.0

    @property
    def without_ties(self) -> bool:
        """Whether no two risks, or distances, are equal: gradients are then the same."""
        outlier = self.batch.kind == "one outlier"  # to which distances may be rounded alike
        rounded = outlier and self.batch.bandwidth == "median"
        return self.batch.kind in WITHOUT_TIES and not rounded

    def tiny(self, place: int) -> bool:
        """Whether risks are so small that in tensors their bandwidth is rounded to few digits."""
        return float(self.batch.risks[place].abs().max()) < 1e-290

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
            self.complain(f"{roads}: refused once", place, level, one, other)
            return
        if one.refused:
            return
        row = self.batch.risks[place].double().numpy()
        scale = self.scale(row, one.value)
        # In tensors, quartiles of very unequal weights are rounded in another order.
        tolerance = OF_THE_SCALE if "numpy" in roads else 1e-8
        allowed = tolerance * scale + self.slack * max(abs(one.value), abs(other.value))
        allowed += self.least
        if abs(one.value - other.value) > allowed:
            # In a gap between risks any value is right for which S is: before it is rounded.
            values = [one.value, other.value]
            if self.slack:
                values = [
                    _in_float64(self.batch, place, level, road) for road in roads.split(" and ")
                ]
            errors = [_log_error(self.batch, place, level, value) for value in values]
            if max(errors) > 1e-12:
                self.complain(f"{roads}: values", place, level, one.value, other.value, errors)
            else:
                self.report.outcomes["in gaps"] += 1
        elif not self.slack and self.without_ties:
            largest = max(1.0, float(np.abs(one.gradient).max()))
            apart = float(np.abs(one.gradient - other.gradient).max()) / largest
            if apart > 1e-8 and not apart <= 1e-8 + self.moved(place, level, one.value):
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
        weights = None if self.batch.weights is None else torch.from_numpy(self.batch.weights)
        leaf = self.batch.risks[place].double().requires_grad_()
        estimate = eqrm.KDE(leaf, self.batch.bandwidth, weights=weights)
        h, slope = estimate.bandwidth, 0.0
        if h.requires_grad:
            slope = float(torch.autograd.grad(h, leaf)[0].abs().max())
        row = leaf.detach().numpy()[self.present]
        distances = row - row[np.abs(row - value).argmin()]
        centres = distances / max(h.item(), NARROWEST * float(np.abs(distances).max()))
        shares = np.log(estimate.weights.numpy()[self.present])
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
        row = self.batch.risks[place].double().numpy()
        allowed = 1e-13 * self.scale(row, low.value) + self.slack * abs(low.value) + self.least
        if high.value < low.value - allowed:
            self.complain("not monotone", place, low.value, high.value)


def judged(batch: Batch) -> Report:
    """All checks of one batch.

    In tensors at both levels; one by one, with the C part and without it, at one of them, and at
    both where the tensor is refused because of one of its rows.
    """
    judge = Judge(batch)
    together = [of_batch(batch, level) for level in batch.levels]
    chosen = batch.seed % 2
    alone: list[list[Answer] | None] = [None, None]
    for number in (0, 1) if None in together else (chosen,):
        alone[number] = of_rows(batch, batch.levels[number], "C")
    pure = of_rows(batch, batch.levels[chosen], "numpy")
    for number, level in enumerate(batch.levels):
        for place in range(len(batch.risks)):
            one, row = alone[number], together[number]
            if one is not None:
                judge.one(place, one[place])
            if row is not None:
                judge.one(place, row[place])
            if one is not None and number == chosen:
                judge.pair(place, level, one[place], pure[place], "C and numpy")
            if one is not None and row is not None and not judge.tiny(place):
                judge.pair(place, level, one[place], row[place], "C and tensors")
    by_level = alone if None in together else together
    for place, answers in enumerate(zip(*by_level, strict=True)):  # type: ignore[arg-type]
        judge.monotone(place, list(answers))
    return judge.report
