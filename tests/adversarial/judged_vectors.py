"""What is wrong with the quantiles that a KDE gives for fuzzed risk vectors, by each road.

Each vector is an estimate of its own, with the C part and without it ("numpy"), and all of them are
rows of one tensor. The roads must agree, and with the definition.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_ndtr, logsumexp
from torch import Tensor

import eqrm
from adversarial.risk_vectors import Batch, Floats
from eqrm.distributions.kde import native
from eqrm.errors import DomainDataError

OF_THE_SCALE = 1e-10
TINY = 1e-290
"""Risks so small that in tensors their bandwidth is rounded to few digits."""


@dataclass
class Answer:
    """A quantile and its gradient, or the refusal of one."""

    value: float
    gradient: Floats
    refused: str = ""
    dtype: torch.dtype | None = None


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


def _quantiles(
    batch: Batch, risks: Tensor, weights: Floats | None, level: eqrm.Level
) -> list[Answer]:
    """Of the rows of a tensor, or of one row."""
    leaf = risks.detach().clone().requires_grad_()
    shares = None if weights is None else torch.from_numpy(weights)
    values = eqrm.KDE(leaf, batch.bandwidth, weights=shares).quantile(level)
    (gradients,) = torch.autograd.grad(values.sum(), leaf)
    dtype = values.dtype if values.dtype == gradients.dtype else None
    rows = gradients.double().reshape(-1, risks.shape[-1]).numpy()
    numbers = values.detach().double().reshape(-1).tolist()
    return [Answer(value, row, "", dtype) for value, row in zip(numbers, rows, strict=True)]


def one_by_one(batch: Batch, level: eqrm.Level, road: str) -> list[Answer]:
    """Each vector as an estimate of its own, with the C part or without it ("numpy")."""
    answers = []
    with mock.patch.object(native, "LIBRARY", None if road == "numpy" else native.LIBRARY):
        for place, row in enumerate(batch.risks):
            try:
                answers += _quantiles(batch, row, batch.weights_of(place), level)
            except DomainDataError as error:
                answers.append(Answer(math.nan, np.empty(0), str(error)))
    return answers


class Judge:
    """Compares the answers for one batch and collects what is wrong."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.report = Report(vectors=len(batch.risks))
        self.rows = batch.risks.double().numpy()
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

    def present(self, place: int) -> npt.NDArray[np.bool_]:
        """Which domains have a weight."""
        own = self.batch.weights_of(place)
        return np.ones(self.rows.shape[1], bool) if own is None else own > 0.0

    def share(self, tolerance: float, place: int, value: float) -> float:
        """Of the spread of risks and quantile, and what rounding of the largest number allows."""
        row = self.rows[place][self.present(place)]
        low, high = min(float(row.min()), value), max(float(row.max()), value)
        rounding = 2.0 * float(np.spacing(0.5 * max(abs(low), abs(high))))
        return tolerance * high - tolerance * low + tolerance / OF_THE_SCALE * 8 * rounding

    def unsure(self, place: int) -> float:
        """What is left of the digits of σ̂ where one domain has nearly all the weight.

        σ̂² ∝ 1/(1−Σp²), and 1 − Σp² is only as exact as 1 is.
        """
        own = self.batch.weights_of(place)
        if own is None or len(own) == 1 or not isinstance(self.batch.bandwidth, str):
            return 0.0
        shares = np.sort(own / own.max())
        shares /= shares.sum()
        apart = shares[:-1].sum() * (1.0 + shares[-1]) - (shares[:-1] ** 2).sum()
        return float(4.0 * np.finfo(np.float64).eps / max(apart, 1e-12))

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
        if one.refused or other.refused:
            return
        # In tensors, quartiles of very unequal weights are rounded in another order.
        quartiles = str(self.batch.bandwidth).startswith("silverman")
        rounded = "tensors" in roads and quartiles and self.batch.weights is not None
        tolerance = (1e-8 if rounded else OF_THE_SCALE) + self.unsure(place)
        allowed = self.share(tolerance, place, one.value) + self.least
        allowed += self.slack * max(abs(one.value), abs(other.value))
        if abs(one.value - other.value) > allowed:
            # In a gap between risks any value is right for which S is.
            errors = [self.log_error(place, level, each.value) for each in (one, other)]
            if max(errors) <= (1e-6 if self.slack else 1e-12):
                self.report.outcomes["in gaps"] += 1
            else:
                self.complain(f"{roads}: values", place, level, one.value, other.value, errors)

    def log_error(self, place: int, level: eqrm.Level, quantile: float) -> float:
        """|log S(q) − log(1−α)| (of the lower tail under ½) from the definition."""
        own = self.batch.weights_of(place)
        weights = None if own is None else torch.from_numpy(own)
        law = eqrm.KDE(self.batch.risks[place].double(), self.batch.bandwidth, weights=weights)
        sign, target = (1.0, level.log_tail) if level.alpha >= 0.5 else (-1.0, level.log_alpha)
        risks, h, few = law.risks.numpy(), float(law.bandwidth), 4.0 * math.ulp(quantile)
        errors = []
        for value in (quantile - few, quantile, quantile + few):
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                z = sign * (risks - value) / h
                found = logsumexp(np.log(law.weights.numpy()) + log_ndtr(z))
            errors.append((float(found) - target) / max(1.0, -target))
        # Kernels may be narrower than what separates two floats: S is right between them.
        return 0.0 if min(errors) <= 0.0 <= max(errors) else min(map(abs, errors))

    def monotone(self, place: int, low: Answer, high: Answer) -> None:
        """The second level is above the first."""
        if low.refused or high.refused:
            return
        allowed = self.share(1e-13, place, low.value) + self.slack * abs(low.value) + self.least
        if high.value < low.value - allowed:
            self.complain("not monotone", place, low.value, high.value)


def judged(batch: Batch) -> Report:
    """All checks of one batch: at one level by all roads, at the other one with the C part."""
    judge = Judge(batch)
    in_c = [one_by_one(batch, level, "C") for level in batch.levels]
    chosen, level = in_c[batch.seed % 2], batch.levels[batch.seed % 2]
    in_numpy = one_by_one(batch, level, "numpy")
    for place, (low, high) in enumerate(zip(*in_c, strict=True)):
        judge.one(place, low)
        judge.one(place, high)
        judge.one(place, in_numpy[place])
        judge.monotone(place, low, high)
        judge.pair(place, level, chosen[place], in_numpy[place], "C and numpy")
    # Tensors refuse risks whose distances, or the sum of these, are too large to be numbers.
    distance = 0.5 * judge.rows.max(1) - 0.5 * judge.rows.min(1)
    usual = (distance <= 0.5e308 / judge.rows.shape[1]) & (np.abs(judge.rows).max(1) >= TINY)
    places = np.flatnonzero(usual & [not each.refused for each in chosen])
    if places.size:
        rows = batch.part(places)
        for place, answer in zip(
            places.tolist(), _quantiles(rows, rows.risks, rows.weights, level), strict=True
        ):
            judge.one(place, answer)
            judge.pair(place, level, chosen[place], answer, "C and tensors")
    return judge.report
