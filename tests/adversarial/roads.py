"""The quantiles of fuzzed risk vectors and their gradients, by each road of the code.

Vectors are rows of one tensor, or each is an estimate of its own, as users make most of them. Or
one row after the other is given to the solver of single rows, without the estimate around it and
without autograd, which takes half the time. With the C part or without it ("numpy").
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import eqrm
from adversarial.risk_vectors import Batch, Floats
from eqrm.distributions.kde import gradient as of_gradient
from eqrm.distributions.kde import native
from eqrm.errors import DomainDataError

Places = npt.NDArray[np.intp]
ONLY_TOGETHER = "refused together, and none of them alone"
FEW = 2
"""So many of the rows that are left out of a tensor are tensors of their own."""


@dataclass
class Answer:
    """A quantile and its gradient, or the refusal of one."""

    value: float
    gradient: Floats
    refused: str = ""
    dtype: torch.dtype | None = None


@dataclass
class Answers:
    """Those of several vectors; ``by_itself`` are rows that the solver of single rows took."""

    values: Floats
    gradients: Floats
    refused: list[str]
    dtypes: list[torch.dtype | None]
    by_itself: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, answers: list[Answer], m: int) -> Answers:
        """From one after the other."""
        gradients = np.full((len(answers), m), math.nan)
        for row, answer in zip(gradients, answers, strict=True):
            if not answer.refused:
                row[:] = answer.gradient
        return cls(
            np.array([answer.value for answer in answers]),
            gradients,
            [answer.refused for answer in answers],
            [answer.dtype for answer in answers],
            np.ones(len(answers), dtype=bool),
        )

    def __getitem__(self, place: int | np.intp) -> Answer:
        return Answer(
            float(self.values[place]),
            self.gradients[place],
            self.refused[place],
            self.dtypes[place],
        )

    def part(self, places: Iterable[int]) -> Answers:
        """Some of them."""
        chosen = np.fromiter(places, dtype=np.intp)
        return Answers(
            self.values[chosen],
            self.gradients[chosen],
            [self.refused[place] for place in chosen],
            [self.dtypes[place] for place in chosen],
            self.by_itself[chosen],
        )

    def put(self, places: Places, others: Answers) -> None:
        """Replace some of them."""
        self.values[places], self.gradients[places] = others.values, others.gradients
        self.by_itself[places] = others.by_itself
        for place, refused, dtype in zip(places, others.refused, others.dtypes, strict=True):
            self.refused[place], self.dtypes[place] = refused, dtype


def _refusal(error: DomainDataError) -> Answer:
    return Answer(math.nan, np.empty(0), str(error))


def _quantile(
    batch: Batch, risks: Tensor, weights: Floats | None, level: eqrm.Level
) -> tuple[Tensor, Tensor]:
    """Quantiles, and the risks that they can be differentiated by."""
    leaf = risks.detach().clone().requires_grad_()
    shares = None if weights is None else torch.from_numpy(weights)
    return eqrm.KDE(leaf, batch.bandwidth, weights=shares).quantile(level), leaf


def _with(road: str) -> mock._patch[object]:
    return mock.patch.object(native, "LIBRARY", None if road == "numpy" else native.LIBRARY)


def of_estimates(batch: Batch, level: eqrm.Level, road: str) -> Answers:
    """Each vector on its own; differentiated together, which is fast.

    A batch in which a gradient is refused only when it is asked for is differentiated one by one.
    """
    answers: list[Answer | None] = []
    asked: list[tuple[Tensor, Tensor]] = []
    with _with(road):
        for place, row in enumerate(batch.risks):
            try:
                asked.append(_quantile(batch, row, batch.weights_of(place), level))
                answers.append(None)
            except DomainDataError as error:
                answers.append(_refusal(error))
        try:
            solved = iter(_differentiated(asked))
        except DomainDataError:
            solved = iter([_differentiated_alone(*each) for each in asked])
    found = [next(solved) if answer is None else answer for answer in answers]
    return Answers.of(found, batch.risks.shape[1])


def _differentiated(asked: list[tuple[Tensor, Tensor]]) -> list[Answer]:
    if not asked:
        return []
    values, leaves = zip(*asked, strict=True)
    return [
        _answer(value, gradient)
        for value, gradient in zip(values, torch.autograd.grad(values, leaves), strict=True)
    ]


def _differentiated_alone(value: Tensor, leaf: Tensor) -> Answer:
    try:
        (answer,) = _differentiated([(value, leaf)])
    except DomainDataError as error:
        return _refusal(error)
    return answer


def _answer(value: Tensor, gradient: Tensor) -> Answer:
    dtype = value.dtype if value.dtype == gradient.dtype else None
    return Answer(value.item(), gradient.double().numpy(), "", dtype)


def of_solver(batch: Batch, level: eqrm.Level, road: str) -> Answers:
    """Each vector by the solver of single rows, which gives a quantile with its gradient.

    What is too large for its dtype is infinite, which the estimate would refuse.
    """
    shares = None if batch.weights is None else torch.from_numpy(batch.weights)
    estimate = eqrm.KDE(batch.risks, batch.bandwidth, weights=shares)
    weights, answers = estimate._raw_weights, []
    with _with(road):
        for place, row in enumerate(batch.risks):
            own = weights if weights is None or weights.ndim == 1 else weights[place]
            inputs = of_gradient.QuantileInputs(row, None, own, estimate.rule, level)
            try:
                value, gradient, _ = of_gradient.value_and_gradients(inputs, True)
            except DomainDataError as error:
                answers.append(_refusal(error))
                continue
            if gradient is None or not math.isfinite(value.item()):
                answers.append(Answer(math.nan, np.empty(0), "The result is too large."))
            else:
                answers.append(_answer(value, gradient))
    return Answers.of(answers, batch.risks.shape[1])


def _in_tensors(batch: Batch, level: eqrm.Level) -> Answers:
    """All vectors as rows of one tensor; refused where any of them is."""
    by_itself, replaced = np.zeros(len(batch.risks), dtype=bool), of_gradient._replace_row

    def noted(results: object, place: tuple[int, ...], *others: object) -> None:
        by_itself[place] = True
        replaced(results, place, *others)  # type: ignore[arg-type]

    with mock.patch.object(of_gradient, "_replace_row", noted):
        values, leaf = _quantile(batch, batch.risks, batch.weights, level)
    (gradients,) = torch.autograd.grad(values.sum(), leaf)
    dtype, count = values.dtype if values.dtype == gradients.dtype else None, len(batch.risks)
    values, gradients = values.detach().double(), gradients.double()
    return Answers(values.numpy(), gradients.numpy(), [""] * count, [dtype] * count, by_itself)


def _halved(batch: Batch, level: eqrm.Level) -> Answers:
    """All vectors as rows of a tensor, or of the halves of one that is refused, and so on."""
    try:
        return _in_tensors(batch, level)
    except DomainDataError as error:
        answers = _refused(batch, error)
    count = len(batch.risks)
    if count <= 1:
        return answers
    for places in np.array_split(np.arange(count), 2):
        answers.put(places, _halved(batch.part(places), level))
    if not any(answers.refused):
        answers.refused[0] = ONLY_TOGETHER
    return answers


def _refused(batch: Batch, error: DomainDataError) -> Answers:
    answers = Answers.of([_refusal(error)] * len(batch.risks), batch.risks.shape[1])
    answers.by_itself[:] = False
    return answers


def _too_large(batch: Batch, level: eqrm.Level) -> npt.NDArray[np.bool_]:
    """Which rows have a quantile that is too large for their dtype, in tensors."""
    shares = None if batch.weights is None else torch.from_numpy(batch.weights)
    estimate = eqrm.KDE(batch.risks, batch.bandwidth, weights=shares, validate=False)
    try:
        found: npt.NDArray[np.bool_] = (~estimate.quantile(level).isfinite()).numpy()
    except DomainDataError:
        return np.zeros(len(batch.risks), dtype=bool)
    return found


def of_batch(batch: Batch, level: eqrm.Level) -> Answers:
    """All vectors as rows of one tensor.

    One row is enough to have a tensor refused. Then those whose quantiles are not too large are
    rows of another one. Gradients may be too large, too, and then those that can be solved by
    themselves are rows of a tensor; should it be refused after all, its halves are solved. A few of
    those that are left out are tensors of their own.
    """
    try:
        return _in_tensors(batch, level)
    except DomainDataError as error:
        answers = _refused(batch, error)
    refused = _too_large(batch, level)
    rest = np.flatnonzero(~refused)
    if rest.size:
        try:
            answers.put(rest, _in_tensors(batch.part(rest), level))
        except DomainDataError:
            refused[rest] = [bool(each) for each in of_solver(batch.part(rest), level, "C").refused]
            rest = np.flatnonzero(~refused)
            answers.put(rest, _halved(batch.part(rest), level))
    for place in np.flatnonzero(refused)[:FEW]:
        answers.put(np.array([place]), _halved(batch.part(np.array([place])), level))
    return answers


def in_float64(batch: Batch, place: int, level: eqrm.Level, road: str) -> float:
    """The quantile of one row before it is rounded to its dtype."""
    wide = batch.part(np.array([place]))
    wide = replace(wide, risks=wide.risks.double())
    solve = of_batch(wide, level) if road == "tensors" else of_estimates(wide, level, road)
    return solve[0].value
