"""Plans: which runs they describe, what draws depend on, and all problems at once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from eqrm.errors import SettingError
from eqrm.objectives import EQRM, GroupDRO
from eqrm.sweeps.planned_runs import PlannedRun
from eqrm.sweeps.spaces import drawn_phases, space_of
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run_data import RunData
from sweeps.small_plans import SMALL, changed, planned

LEARNING_RATE, STEP_SIZE = "learning_rate", "objective.hyperparameters.step_size"


def runs_of(content: dict[str, Any], **wanted: Any) -> list[PlannedRun]:
    """The runs of a plan with these values of draw, trial, objective."""
    found = planned(content).runs
    return [run for run in found if all(getattr(run, k) == v for k, v in wanted.items())]


def test_a_plan_is_the_product_of_its_parts() -> None:
    content = changed(
        datasets=[
            {"name": "coloured-digits", "held_out": ["source-01", ["source-02", "source-03"]]}
        ],
        trials=3,
    )
    runs = planned(content).runs
    assert len(runs) == len({run.run for run in runs}) == 2 * 2 * 2 * 3
    assert {run.held_out for run in runs} == {("source-01",), ("source-02", "source-03")}
    for run in runs:
        assert run.config.data.test == list(run.held_out)
        assert RunConfig.read(run.config.plain()).run_name == run.run


def test_draw_0_is_the_defaults_and_others_lie_in_the_declared_spaces() -> None:
    content = changed(draws=30, objectives=["groupdro"])
    default, *others = planned(content).runs
    assert default.settings == {LEARNING_RATE: 1e-3, STEP_SIZE: GroupDRO().step_size}
    assert default.config.objective.hyperparameters == {}
    for run in others:
        assert 1e-3 <= run.settings[LEARNING_RATE] <= 1e-1
        assert run.config.learning_rate == run.settings[LEARNING_RATE]
        assert 1e-3 <= run.settings[STEP_SIZE] <= 1e-1
        assert run.config.objective.hyperparameters == {"step_size": run.settings[STEP_SIZE]}
    logs = [math.log10(run.settings[LEARNING_RATE]) for run in others]
    assert abs(sum(logs) / len(logs) + 2) < 4 * (2 / math.sqrt(12)) / math.sqrt(len(logs))


def test_draws_are_repeated_over_trials_unless_asked_otherwise() -> None:
    same = runs_of(changed(trials=2), draw=1, objective="groupdro")
    assert same[0].settings == same[1].settings
    assert same[0].config.training.seed != same[1].config.training.seed
    own = runs_of(changed(trials=2, draws_per_trial=True), draw=1, objective="groupdro")
    assert own[0].settings != own[1].settings


def test_a_draw_does_not_depend_on_the_rest_of_the_plan() -> None:
    (before,) = runs_of(SMALL, draw=1, objective="groupdro")
    (after,) = runs_of(
        changed(
            objectives=["sd", "groupdro"],
            search={**SMALL["search"], "predictor.settings.width": [4, 8]},
        ),
        draw=1,
        objective="groupdro",
    )
    assert {key: after.settings[key] for key in before.settings} == before.settings
    assert after.settings["predictor.settings.width"] in (4, 8)


def test_fixed_hyperparameters_are_not_drawn_and_spaces_can_be_replaced() -> None:
    objectives = [
        {"name": "eqrm", "label": "eqrm .9", "hyperparameters": {"alpha": 0.9}},
        {"name": "eqrm", "search": {"alpha": [0.6, 0.7]}},
    ]
    runs = runs_of(changed(objectives=objectives, draws=4))
    fixed = [run for run in runs if run.objective == "eqrm .9"]
    assert {run.config.objective.hyperparameters["alpha"] for run in fixed} == {0.9}
    assert {tuple(run.settings) for run in fixed} == {(LEARNING_RATE,)}
    path = "objective.hyperparameters.alpha"
    drawn = [run.settings[path] for run in runs if run.objective == "eqrm" and run.draw > 0]
    assert set(drawn) <= {0.6, 0.7}


def test_burn_in_and_learning_rate_of_recommended_phases_are_drawn_and_the_switch_fires() -> None:
    run = {"steps": 2600, "phases": "recommended"}
    runs = runs_of(changed(objectives=["eqrm"], draws=25, run=run))
    lengths = [r.settings["phases.0.steps"] for r in runs]
    assert lengths[0] == EQRM().recommended_phases()[0].steps
    assert len(set(lengths)) > 10
    assert all(isinstance(n, int) and 316 <= n < 2600 for n in lengths)
    for each in runs:
        burn_in, main = each.config.made_phases(2)
        assert (burn_in.minimised.name, main.minimised.name) == ("erm", "eqrm")
        assert burn_in.length + main.length == 2600
        assert 1e-7 <= main.rate() <= 1e-5
        assert each.settings["phases.1.learning_rate"] == main.learning_rate


def test_phases_that_cannot_fit_are_refused() -> None:
    with pytest.raises(SettingError, match="do not fit into 5 steps"):
        drawn_phases({"phases.0.steps": space_of([7, 9], "x")}, (0,), fixed=0, steps=5)


def test_every_point_of_a_grid_is_run() -> None:
    content = changed(
        draws=None,
        search=None,
        grid={LEARNING_RATE: [0.1, 0.01]},
        objectives=["erm", {"name": "groupdro", "grid": {"step_size": [0.1, 0.2, 0.3]}}],
    )
    runs = planned(content).runs
    erm = [(r.draw, r.settings) for r in runs if r.objective == "erm"]
    assert erm == [(0, {LEARNING_RATE: 0.1}), (1, {LEARNING_RATE: 0.01})]
    groupdro = [(r.draw, *r.settings.values()) for r in runs if r.objective == "groupdro"]
    expected = [(rate, size) for rate in (0.1, 0.01) for size in (0.1, 0.2, 0.3)]
    assert groupdro == [(number, *point) for number, point in enumerate(expected)]


@pytest.mark.unmeasured
def test_domains_are_held_out_one_by_one_and_in_pairs() -> None:
    datasets = [{"name": "coloured-digits", "held_out": "each-and-pairs"}]
    runs = runs_of(changed(datasets=datasets, objectives=["erm"], draws=None, search=None))
    assert len({run.held_out for run in runs}) == len(runs) == 60 + 60 * 59 // 2
    assert {len(run.held_out) for run in runs} == {1, 2}


def test_examples_for_validation_are_the_same_for_all_runs_of_a_trial() -> None:
    runs = planned(changed(trials=2)).runs
    seeds = {(run.trial, run.config.data.seed) for run in runs}
    assert len(seeds) == 2
    data = RunData.read(runs[0].config.data)
    assert set(data.held_out) == {"train", "validation", "test"}
    assert data.held_out["validation"].num_domains == 60
    assert data.held_out["test"].names == ("source-01", "source-02")


def test_a_dataset_has_fields_of_its_own() -> None:
    own = {"steps": 9, "predictor": {"settings": {"width": 5}}}
    content = changed(datasets=[{**SMALL["datasets"][0], "label": "digits", "run": own}])
    (run, *_) = planned(content).runs
    assert (run.dataset, run.config.steps) == ("digits", 9)
    assert run.config.predictor.settings == {"width": 5, "depth": 1, "dropout": 0.2}
