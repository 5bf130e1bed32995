"""Selection rules on records made by hand, with answers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
import torch

from eqrm.distributions import Empirical
from eqrm.sweeps.records import Checkpoint, RunRecord
from eqrm.sweeps.selection import (
    Candidates,
    LeaveOneDomainOut,
    OracleSelection,
    QuantileSelection,
    SelectionRule,
    TrainingDomainValidation,
    reported,
)
from sweeps.made_records import checkpoint, record

HELD_OUT = frozenset({"c"})


def of_runs(*runs: RunRecord, validating: Sequence[RunRecord] = ()) -> Candidates:
    others: dict[int, dict[str, RunRecord]] = {}
    for run in validating:
        (domain,) = set(run.held_out) - HELD_OUT
        others.setdefault(run.draw, {})[domain] = run
    return Candidates(HELD_OUT, {run.draw: run for run in runs}, others)


def chosen(rule: SelectionRule, candidates: Candidates) -> tuple[int, int, float]:
    """Draw, step and score of what a rule selects."""
    selected = rule.select(candidates).selected
    assert selected is not None
    return selected.run.draw, selected.checkpoint.step, selected.score


def validated(step: int, a: float, b: float, c: float = 0.0) -> Checkpoint:
    return checkpoint(step, validation={"a": a, "b": b, "c": c}, test={"c": c})


def with_risks(step: int, *risks: float) -> Checkpoint:
    names = [f"day {i}" for i in range(len(risks))]
    return checkpoint(step, validation_risks=dict(zip(names, risks, strict=True)))


def test_training_domain_validation_takes_the_best_mean_of_training_domains_over_checkpoints() -> (
    None
):
    first = record(validated(0, 0.5, 0.75), validated(10, 0.75, 0.75, c=0.25), draw=0)
    second = record(validated(0, 1.0, 0.25, c=1.0), validated(10, 0.5, 0.5, c=1.0), draw=1)
    # means over a and b: .625 and .75 of the first draw, .625 and .5 of the second
    candidates = of_runs(first, second)
    assert chosen(TrainingDomainValidation(), candidates) == (0, 10, 0.75)
    selected = TrainingDomainValidation().select(candidates).selected
    assert selected is not None
    assert reported(selected, HELD_OUT, "accuracy") == 0.25


def test_equal_scores_go_to_the_lowest_draw_and_then_to_the_lowest_step() -> None:
    late = record(validated(0, 0.5, 0.5), draw=7)
    early = record(validated(20, 0.75, 0.25), validated(10, 0.25, 0.75), draw=2)
    assert chosen(TrainingDomainValidation(), of_runs(late, early)) == (2, 10, 0.5)


def test_means_that_are_equal_are_equal_in_any_order_of_the_domains() -> None:
    """.1 + .2 + .3 summed from the left is not .3 + .2 + .1."""
    values = [0.1, 0.2, 0.3]
    one = checkpoint(5, validation=dict(zip("abd", values, strict=True)))
    other = checkpoint(9, validation=dict(zip("abd", values[::-1], strict=True)))
    assert chosen(TrainingDomainValidation(), of_runs(record(other, one)))[:2] == (0, 5)


def test_the_oracle_looks_at_the_validation_examples_of_the_held_out_domain_at_the_last_step() -> (
    None
):
    first = record(validated(0, 0, 0, c=1.0), validated(10, 1, 1, c=0.5), draw=0)
    second = record(validated(0, 0, 0, c=0.0), validated(10, 0, 0, c=0.75), draw=1)
    assert chosen(OracleSelection(), of_runs(first, second)) == (1, 10, 0.75)
    best = OracleSelection(checkpoints="best")
    assert chosen(best, of_runs(first, second)) == (0, 0, 1.0)


def pair(draw: int, domain: str, by_step: Mapping[int, float]) -> RunRecord:
    """A run that also holds out ``domain``, with its test accuracy by step."""
    steps = [checkpoint(s, test={"c": 0.0, domain: value}) for s, value in by_step.items()]
    return record(*steps, held_out=(domain, "c"), draw=draw)


def test_leave_one_domain_out_judges_a_draw_and_a_step_by_the_runs_that_hold_out_one_more() -> None:
    base = [record(validated(0, 1, 1), validated(10, 1, 1), draw=d) for d in (0, 1)]
    pairs = [
        pair(0, "a", {0: 0.5, 10: 0.25}),
        pair(0, "b", {0: 0.25, 10: 0.75}),
        pair(1, "a", {0: 1.0, 10: 0.5}),
        pair(1, "b", {0: 0.0, 10: 0.625}),
    ]
    # draw 0: .375, .5; draw 1: .5, .5625
    assert chosen(LeaveOneDomainOut(), of_runs(*base, validating=pairs)) == (1, 10, 0.5625)


def test_leave_one_domain_out_names_the_run_that_is_missing_and_does_without_that_draw() -> None:
    base = [record(validated(0, 1, 1), draw=d) for d in (0, 1, 2)]
    pairs = [pair(0, "a", {0: 0.1}), pair(0, "b", {0: 0.2}), pair(1, "a", {0: 1.0})]
    choice = LeaveOneDomainOut().select(of_runs(*base, validating=pairs))
    assert choice.selected is not None
    assert choice.selected.run.draw == 0
    assert choice.unjudged == {
        "toy-erm-c-1-0": "no run with its draw and trial also holds out 'b'",
        "toy-erm-c-2-0": "no run with its draw and trial holds out one domain more",
    }


def test_quantile_selection_takes_the_lowest_quantile_of_the_validation_domains_risk() -> None:
    low_mean = record(with_risks(0, 0.1, 0.1, 0.1, 0.1, 0.9), draw=0)
    low_tail = record(with_risks(0, 0.5, 0.5, 0.5, 0.5, 0.5), draw=1)
    candidates = of_runs(low_mean, low_tail)
    assert chosen(QuantileSelection(), candidates) == (1, 0, -0.5)
    assert chosen(QuantileSelection(alpha=0.5), candidates) == (0, 0, -0.1)
    assert chosen(TrainingDomainValidation(metric="risk"), candidates) == (0, 0, -0.26)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 0.9, 1.0, "1-e^-50"])
def test_quantile_selection_agrees_with_the_empirical_distribution(alpha: float | str) -> None:
    generator = torch.Generator().manual_seed(3)
    for number in (1, 2, 3, 10, 37):
        risks = torch.rand(number, generator=generator, dtype=torch.float64)
        expected = Empirical(risks).quantile(alpha)
        score = chosen(
            QuantileSelection(alpha=alpha), of_runs(record(with_risks(0, *risks.tolist())))
        )[2]
        assert -score == pytest.approx(float(expected), rel=1e-14)


def test_the_risk_of_held_out_domains_plays_no_part_in_quantile_selection() -> None:
    good = checkpoint(0, validation_risks={"a": 0.5, "b": 0.5, "c": 9.0})
    assert chosen(QuantileSelection(), of_runs(record(good))) == (0, 0, -0.5)


def test_checkpoints_that_are_not_finite_are_never_selected_and_a_run_of_them_is_named() -> None:
    diverged = record(with_risks(0, math.nan, 0.1), with_risks(5, math.inf, 0.1), draw=0)
    poor = record(with_risks(0, 5.0, 5.0), with_risks(5, 3.0, math.nan), draw=1)
    for rule in (QuantileSelection(), TrainingDomainValidation(metric="risk")):
        choice = rule.select(of_runs(diverged, poor))
        assert choice.selected is not None
        assert (choice.selected.run.draw, choice.selected.checkpoint.step) == (1, 0)
        assert choice.unjudged == {"toy-erm-c-0-0": "no checkpoint with a finite risk"}


@pytest.mark.parametrize(
    ("rule", "run", "reason"),
    [
        (TrainingDomainValidation(), record(), "no checkpoint was recorded"),
        (
            TrainingDomainValidation(),
            record(checkpoint(0, validation={"c": 1.0})),
            "no validation accuracy of domains that are not held out",
        ),
        (
            QuantileSelection(),
            record(validated(0, 1, 1)),
            "no validation risk of domains that are not held out",
        ),
        (
            QuantileSelection(),
            record(with_risks(0, 1.0), with_risks(1, 1.0, 2.0)),
            "its checkpoints were measured on different validation domains",
        ),
        (
            OracleSelection(),
            record(checkpoint(0, validation={"a": 1.0})),
            "no validation accuracy of the held-out domain 'c'",
        ),
        (
            LeaveOneDomainOut(),
            record(checkpoint(0, test={"c": 1.0})),
            "no training domain is named in its record",
        ),
    ],
)
def test_a_run_that_cannot_be_judged_is_named_with_the_reason(
    rule: SelectionRule, run: RunRecord, reason: str
) -> None:
    choice = rule.select(of_runs(run))
    assert choice.selected is None
    assert choice.unjudged == {run.run: reason}


def test_the_mean_over_several_held_out_domains_needs_all_of_them() -> None:
    run = record(checkpoint(0, validation={"a": 1.0}, test={"c": 0.5, "d": 1.0}))
    selected = TrainingDomainValidation().select(of_runs(run)).selected
    assert selected is not None
    assert reported(selected, {"c", "d"}, "accuracy") == 0.75
    assert reported(selected, {"c", "e"}, "accuracy") is None
    assert reported(selected, {"c", "d"}, "risk") is None
