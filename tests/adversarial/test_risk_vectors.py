"""A sample of the fuzzed risk vectors; ``make verify`` judges a million of them."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

import eqrm
from adversarial.judged_vectors import Answer, Judge, Report, judged
from adversarial.risk_vectors import KINDS, ROWS, Batch, batch_of
from eqrm.distributions import LogNormal
from eqrm.distributions.bandwidths import BANDWIDTHS
from eqrm.distributions.kde import gradient
from eqrm.errors import DomainDataError

SAMPLE = 4


def _report(seeds: range) -> Report:
    report = Report()
    for seed in seeds:
        report.add(judged(batch_of(seed)))
    return report


def test_fuzzed_risk_vectors_are_solved_alike_on_every_road_or_refused() -> None:
    report = _report(range(SAMPLE))
    assert report.problems == []
    assert report.vectors == SAMPLE * ROWS
    assert report.outcomes["solved"] > 2 * report.vectors


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(97, id="gradients at two values in a gap differ as the values do"),
        pytest.param(1758, id="a float16 gradient of a batch is too large"),
        pytest.param(1891, id="one domain has nearly all the weight"),
        pytest.param(40154, id="and the others are far away", marks=pytest.mark.full),
        pytest.param(40439, id="the value has fewer digits than the bandwidth"),
        pytest.param(101163, id="and the far one comes first", marks=pytest.mark.full),
        pytest.param(41422, id="kernels are 1e-100 of the spread"),
    ],
)
def test_what_was_wrong_once_is_right(seed: int) -> None:
    report = judged(batch_of(seed, rows=50, mixed=False))
    assert report.problems == []
    assert report.vectors == 50


def test_the_generator_covers_every_kind_and_rule() -> None:
    batches = [batch_of(seed) for seed in range(400)]
    assert {batch.kind for batch in batches} == set(KINDS)
    assert {batch.bandwidth for batch in batches} >= set(BANDWIDTHS)
    assert {batch.risks.dtype for batch in batches} == {
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.float16,
    }
    assert min(level.log_tail for batch in batches for level in batch.levels) == -1e30
    assert all(batch.risks.isfinite().all() for batch in batches)
    sizes = torch.cat([batch.risks.double().abs().amax(1) for batch in batches])
    sizes = sizes[sizes > 0.0].log10()
    assert float(sizes.min()) < -300.0
    assert float(sizes.max()) > 300.0
    assert float(((sizes < -90.0) | (sizes > 90.0)).double().mean()) > 0.1
    weighted = [batch.weights for batch in batches if batch.weights is not None]
    assert {weights.ndim for weights in weighted} == {1, 2}


def test_the_judge_notices_what_is_wrong() -> None:
    risks = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    level = eqrm.Level(0.9)
    judge = Judge(Batch(0, "both signs", risks, None, "scott", [level, level]))
    right = Answer(3.0, torch.tensor([0.0, 0.0, 1.0]).numpy(), "", torch.float64)
    judge.one(0, right)
    assert judge.report.problems == []
    judge.one(0, Answer(float("nan"), right.gradient, "", torch.float64))
    judge.one(0, Answer(3.0, right.gradient * 0.5, "", torch.float64))
    judge.one(0, Answer(3.0, right.gradient, "", torch.float32))
    judge.one(0, Answer(0.0, right.gradient, "IndexError"))
    judge.pair(0, level, right, Answer(3.0 + 1e-6, right.gradient), "C and numpy")
    judge.pair(0, level, right, Answer(3.0, right.gradient, "too large"), "C and numpy")
    judge.pair(0, level, right, Answer(3.0, right.gradient * (1.0 + 1e-6)), "C and numpy")
    judge.monotone(0, right, Answer(2.9, right.gradient))
    assert [problem.split(" at row")[0] for problem in judge.report.problems] == [
        "not finite",
        "gradient does not add up",
        "dtype",
        "odd refusal",
        "C and numpy: values",
        "C and numpy: refused once",
        "C and numpy: gradients",
        "not monotone",
    ]


def test_a_defect_in_one_row_of_a_tensor_is_noticed() -> None:
    rows = torch.from_numpy(np.random.default_rng(0).lognormal(size=(20, 5)))
    levels = [eqrm.Level(0.8), eqrm.Level(0.9)]
    batch, solve = Batch(0, "log-normal", rows, None, "scott", levels), gradient._in_tensors

    def moved(*given: Any) -> Any:
        value, *others = solve(*given)
        value[13] *= 1.0 + 1e-6
        return value, *others

    assert judged(batch).problems == []
    with mock.patch.object(gradient, "_in_tensors", moved):
        (problem,) = judged(batch).problems
    assert problem.startswith("C and tensors: values at row 13")


def _superquantile(law: Any, level: eqrm.Level, leaf: Tensor) -> tuple[float, float] | None:
    """The superquantile and the quantile in float64, or None if it, or its gradient, is refused."""
    try:
        value, least = law.superquantile(level), law.quantile(level)
        (gradient,) = torch.autograd.grad(value, leaf)
    except DomainDataError:
        return None
    assert value.dtype == leaf.dtype
    assert bool(gradient.isfinite().all())
    return value.item(), least.item()


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 800), marks=pytest.mark.full)], ids=str
)
def test_superquantiles_are_finite_and_above_quantiles_or_refused(seeds: range) -> None:
    solved = asked = 0
    for seed in seeds:
        batch = batch_of(seed)
        for place in range(2):
            weights = batch.weights_of(place)
            leaf = batch.risks[place].clone().requires_grad_()
            laws: list[Any] = [
                eqrm.KDE(leaf, batch.bandwidth, weights=weights),
                eqrm.Gaussian(leaf, weights=weights),
            ]
            if bool((leaf > 0).all()):
                laws.append(LogNormal(leaf, weights=weights))
            scale = float(leaf.detach().double().abs().max())
            for law in laws:
                for level in batch.levels:
                    asked += 1
                    found = _superquantile(law, level, leaf)
                    if found is None:
                        continue
                    solved += 1
                    value, least = found
                    assert np.isfinite(value), (batch, law, level)
                    # Computed on two roads; the contract is 1e-10 of the scale.
                    rounding = max(4.0 * torch.finfo(leaf.dtype).eps, 1e-10)
                    rounding *= max(scale, abs(least))
                    # A bandwidth of denormal risks has no digits.
                    below = value < least - rounding and batch.kind != "denormal"
                    assert not below, (batch, law, level)
    assert solved > 0.8 * asked
