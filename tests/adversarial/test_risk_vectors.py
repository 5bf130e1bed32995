"""A sample of the fuzzed risk vectors; ``make verify`` judges a million of them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
import torch

import eqrm
from adversarial import fuzzing
from adversarial.judged_vectors import Answer as Found
from adversarial.judged_vectors import Judge, Report, judged
from adversarial.risk_vectors import KINDS, ROWS, Batch, batch_of
from eqrm.distributions import BANDWIDTHS

SAMPLE = 8


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
        pytest.param(40154, id="and the others are far away"),
        pytest.param(40439, id="the value has fewer digits than the bandwidth"),
        pytest.param(101163, id="and the far one comes first"),
        pytest.param(41422, id="kernels are 1e-100 of the spread"),
    ],
)
def test_what_was_wrong_once_is_right(seed: int) -> None:
    assert judged(batch_of(seed)).problems == []


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
    assert told[-1].startswith("100 vectors: ")
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
