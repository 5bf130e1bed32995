"""A sample of the fuzzed risk vectors; ``make verify`` judges a million of them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

import eqrm
from adversarial import fuzzing
from adversarial.judged_vectors import ALONE, Judge, Report, judged
from adversarial.risk_vectors import KINDS, ROWS, Batch, batch_of
from adversarial.roads import Answer as Found
from adversarial.roads import Answers
from eqrm.distributions import BANDWIDTHS, LogNormal
from eqrm.distributions.kde import gradient, native
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
    assert report.outcomes["vectors also by themselves"] == SAMPLE * ALONE


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
    report = judged(batch_of(seed, rows=50, mixed=False), alone=50)
    assert report.problems == []
    assert report.vectors == 50


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    told: list[str] = []
    few = [f"--json={tmp_path / 'found.json'}", "--workers=1", "--first=100"]
    with (
        mock.patch.object(fuzzing, "BATCHES_AT_ONCE", 1),
        mock.patch.object(fuzzing, "_pool", lambda workers: ThreadPoolExecutor(workers)),
    ):
        assert fuzzing.main([*few, f"--count={ROWS}"], told.append) == 0
        assert fuzzing.main([*few, f"--count={2 * ROWS}"], told.append) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["next"] == 102
    assert found["vectors"] == 2 * ROWS
    assert told[-1].startswith(f"{2 * ROWS} vectors: ")
    assert "; 0 problems (" in told[-1]


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
    right = Found(3.0, torch.tensor([0.0, 0.0, 1.0]).numpy(), "", torch.float64)
    judge.one(0, right)
    assert judge.report.problems == []
    judge.one(0, Found(float("nan"), right.gradient, "", torch.float64))
    judge.one(0, Found(3.0, right.gradient * 0.5, "", torch.float64))
    judge.one(0, Found(3.0, right.gradient, "", torch.float32))
    judge.one(0, Found(0.0, right.gradient, "IndexError"))
    judge.pair(0, level, right, Found(3.0 + 1e-6, right.gradient), "C and numpy")
    judge.pair(0, level, right, Found(3.0, right.gradient, "too large"), "C and numpy")
    judge.pair(0, level, right, Found(3.0, right.gradient * (1.0 + 1e-6)), "C and numpy")
    judge.monotone(0, [right, Found(2.9, right.gradient)])
    told = [problem.split(" at row")[0] for problem in judge.report.problems]
    assert told == [
        "not finite",
        "gradient does not add up",
        "dtype",
        "odd refusal",
        "C and numpy: values",
        "C and numpy: refused once",
        "C and numpy: gradients",
        "not monotone",
    ]


def _some(wrong: dict[int, Found]) -> Answers:
    """Right answers for ten vectors, but for some."""
    right = Found(3.0, torch.tensor([0.0, 0.0, 1.0]).numpy(), "", torch.float64)
    return Answers.of([wrong.get(place, right) for place in range(10)], 3)


def test_the_judge_notices_one_wrong_row_among_many() -> None:
    risks = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64).repeat(10, 1)
    level, places, right = eqrm.Level(0.9), np.arange(10), _some({})
    judge = Judge(Batch(0, "both signs", risks, None, "scott", [level, level]))
    judge.each(places, right)
    judge.pairs(places, level, right, right, "C and numpy")
    judge.ascending(right, right)
    assert judge.report.problems == []
    assert judge.report.outcomes == {"solved": 10}
    gradient = right.gradients[0]
    judge.each(places, _some({1: Found(float("inf"), gradient, "", torch.float64)}))
    judge.each(places, _some({2: Found(3.0, gradient * float("nan"), "", torch.float64)}))
    judge.each(places, _some({3: Found(3.0, gradient * (1.0 + 2e-9), "", torch.float64)}))
    judge.each(places, _some({4: Found(3.0, gradient, "", torch.float32)}))
    judge.each(places, _some({5: Found(3.0, gradient, "IndexError")}))
    for wrong in (
        {6: Found(3.0 + 1e-8, gradient)},
        {7: Found(3.0, gradient, "too large")},
        {8: Found(3.0, gradient * (1.0 + 2e-8))},
    ):
        judge.pairs(places, level, right, _some(wrong), "C and numpy")
    judge.ascending(right, _some({9: Found(2.999, gradient)}))
    told = [problem.split(" of seed")[0] for problem in judge.report.problems]
    assert told == [
        "not finite at row 1",
        "not finite at row 2",
        "gradient does not add up at row 3",
        "dtype at row 4",
        "odd refusal at row 5",
        "C and numpy: values at row 6",
        "C and numpy: refused once at row 7",
        "C and numpy: gradients at row 8",
        "not monotone at row 9",
    ]


def _usual_batch() -> Batch:
    rows = torch.from_numpy(np.random.default_rng(0).lognormal(size=(20, 5)))
    return Batch(0, "log-normal", rows, None, "scott", [eqrm.Level(0.8), eqrm.Level(0.9)])


def _told(report: Report) -> set[str]:
    return {problem.split(" of seed")[0] for problem in report.problems}


def test_a_defect_in_one_row_of_a_tensor_is_noticed() -> None:
    solve = gradient._in_tensors

    def moved(*given: Any) -> Any:
        value, *others = solve(*given)
        value[13] *= 1.0 + 1e-6
        return value, *others

    assert judged(_usual_batch()).problems == []
    with mock.patch.object(gradient, "_in_tensors", moved):
        assert _told(judged(_usual_batch())) == {"C and tensors: values at row 13"}


def test_a_defect_of_the_c_part_in_one_row_is_noticed() -> None:
    if native.LIBRARY is None:
        pytest.skip("the C part is not built")
    batch, solve = _usual_batch(), native.row_quantile

    def moved(risks: Tensor, *given: Any, **others: Any) -> Any:
        value, *rest = solve(risks, *given, **others) or pytest.fail("not solved in C")
        return value * (1.0 + 1e-6 * risks.equal(batch.risks[13])), *rest

    with mock.patch.object(native, "row_quantile", moved):
        assert _told(judged(batch)) == {"C and tensors: values at row 13"}


def test_a_refused_row_hides_no_other_one() -> None:
    batch, solve = _usual_batch(), gradient._in_tensors

    def refused(inputs: gradient.QuantileInputs, *given: Any) -> Any:
        value, *others = solve(inputs, *given)
        for row, risks in enumerate(inputs.risks):
            if risks.equal(batch.risks[7]):
                raise DomainDataError("The result is too large.")
            value[row] *= 1.0 + 1e-6 * risks.equal(batch.risks[13])
        return value, *others

    with mock.patch.object(gradient, "_in_tensors", refused):
        report = judged(batch)
    assert _told(report) == {
        "C and tensors: refused once at row 7",
        "C and tensors: values at row 13",
    }
    assert report.outcomes["refused"] == 2


def test_rows_that_are_refused_only_together_are_noticed() -> None:
    solve = gradient._in_tensors

    def refused(inputs: gradient.QuantileInputs, *given: Any) -> Any:
        if len(inputs.risks) > 1:
            raise DomainDataError("The result is too large.")
        return solve(inputs, *given)

    with mock.patch.object(gradient, "_in_tensors", refused):
        told = _told(judged(_usual_batch()))
    assert "odd refusal at row 0" in told


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
