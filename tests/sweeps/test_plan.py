"""Plans: which runs they describe, what draws depend on, and all problems at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from eqrm.errors import SettingError
from eqrm.objectives import EQRM, GroupDRO
from eqrm.sweeps.planned_runs import PlannedRun, planned_sweep
from eqrm.sweeps.spaces import drawn_phases, space_of
from eqrm.sweeps.sweep_folder import SweepFolder
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


def test_the_same_plan_gives_the_same_runs() -> None:
    first, second = ([run.place() for run in planned(SMALL).runs] for _ in range(2))
    assert first == second
    assert [r.run for r in planned(changed(seed=4)).runs] != [r["run"] for r in first]


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


@pytest.mark.parametrize(
    ("held_out", "number", "sizes"),
    [("each", 60, {1}), ("each-and-pairs", 60 + 60 * 59 // 2, {1, 2})],
)
def test_domains_are_held_out_one_by_one_or_in_pairs(
    held_out: str, number: int, sizes: set[int]
) -> None:
    datasets = [{"name": "coloured-digits", "held_out": held_out}]
    runs = runs_of(changed(datasets=datasets, objectives=["erm"], draws=None, search=None))
    assert len({run.held_out for run in runs}) == len(runs) == number
    assert {len(run.held_out) for run in runs} == sizes


def test_random_sets_of_test_domains_are_the_same_for_every_objective() -> None:
    datasets = [{"name": "coloured-digits", "held_out": {"share": 0.25, "splits": 3}}]
    runs = runs_of(changed(datasets=datasets), draw=0)
    by_objective = [
        [run.held_out for run in runs if run.objective == name] for name in ("erm", "groupdro")
    ]
    assert by_objective[0] == by_objective[1]
    assert len(set(by_objective[0])) == 3
    assert {len(each) for each in by_objective[0]} == {15}


def test_examples_for_validation_are_the_same_for_all_runs_of_a_trial() -> None:
    runs = planned(changed(trials=2)).runs
    seeds = {(run.trial, run.config.data.seed) for run in runs}
    assert len(seeds) == 2
    data = RunData.read(runs[0].config.data)
    assert set(data.held_out) == {"train", "validation", "test"}
    assert data.held_out["validation"].num_domains == 60
    assert data.held_out["test"].names == ("source-01", "source-02")


def test_whole_validation_domains_take_the_place_of_examples() -> None:
    runs = planned(changed(run={"data": {"validation": 0.2}})).runs
    data = runs[0].config.data
    assert (data.validation, data.validation_examples) == (0.2, None)


def test_a_dataset_has_fields_of_its_own() -> None:
    own = {"steps": 9, "predictor": {"settings": {"width": 5}}}
    content = changed(datasets=[{**SMALL["datasets"][0], "label": "digits", "run": own}])
    (run, *_) = planned(content).runs
    assert (run.dataset, run.config.steps) == ("digits", 9)
    assert run.config.predictor.settings == {"width": 5, "depth": 1, "dropout": 0.2}


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep")
    good = planned(SMALL)
    folder.begin(good.content, good.runs_listed())
    content = changed(
        trails=3,
        draws=0,
        datasets=[
            {"name": "coloured-digits", "held_out": ["source-1"]},
            "colored-mnits",
            {"name": "table", "settings": {"file": "nowhere.csv", "target": "y", "domain": "d"}},
            {"name": "coloured-digits", "held_out": "every", "label": "other"},
        ],
        objectives=[
            "erm",
            "grupdro",
            {"name": "eqrm", "hyperparameters": {"alpha": 2}},
            {"name": "sd", "search": {"weight": [1]}},
        ],
        search={"learning_rat": {"log-uniform": [1, 2]}, "steps": {"uniform": [3]}},
        run={"objective": {"name": "erm"}, "schedule": "linear"},
    )
    with pytest.raises(SettingError) as error:
        planned_sweep(content, "plan.yaml", None, folder)
    text = str(error.value)
    for words in (
        "no field 'trails'. Did you mean 'trials'?",
        "draws must be None or an integer from 1 to 1000000, got 0",
        "the domain 'source-1' does not exist. Did you mean 'source-",
        "Unknown dataset 'colored-mnits'. Did you mean 'colored-mnist'?",
        "nowhere.csv",
        "Unknown choice of held_out 'every'",
        "Unknown objective 'grupdro'. Did you mean 'groupdro'?",
        "alpha",
        "no hyperparameter 'weight'",
        "search.steps needs two numbers",
        "run cannot hold objective",
        "Unknown schedule 'linear'",
        "belongs to another plan",
    ):
        assert words in text, words
    assert text.startswith("plan.yaml has ")
    assert len(text.splitlines()) - 1 == int(text.split()[2])
    assert not list((tmp_path / "sweep" / "runs").iterdir())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"datasets": []}, "datasets must be a list with at least one entry"),
        ({"objectives": ["erm", "ERM"]}, "objectives lists 'erm' twice"),
        ({"grid": {"steps": [5]}}, "grid cannot be combined with draws"),
        ({"draws": 1}, "search needs draws of at least 2"),
        ({"run": {"data": {"seed": 1}}}, "run cannot hold data.seed"),
        ({"run": {"predictor": {"name": "resnet18"}}}, "takes images"),
        ({"run": {"batches": {"domains": 500}}}, "domains_per_batch is 500"),
        ({"draws": None, "search": None, "grid": {"learning_rate": [-1]}}, "learning_rate"),
        ({"search": {"predictor.settings.widht": [1, 2]}}, "Did you mean 'width'?"),
        ({"search": {"learning_rate": {"log-uniform": [0, 1]}}}, "numbers above 0"),
        ({"search": {"learning_rate": {"normal": [0, 1]}}}, "no kind of range 'normal'"),
        ({"search": {"steps": {"uniform": [1, 2], "integer": True}}}, "List the integers"),
        ({"search": {"learning_rate": 0.1}}, "must be a list of values"),
        (
            {"draws": None, "search": None, "grid": {"learning_rate": [0.1, 0.1]}},
            "lists 0.1 twice",
        ),
        ({"objectives": ["mldg"], "run": {"batches": {"domains": 1}}}, "needs at least 2"),
        (
            {"datasets": [{"name": "coloured-digits", "held_out": [["source-01"] * 2]}]},
            "lists a domain twice",
        ),
        (
            {
                "objectives": [
                    {
                        "name": "sd",
                        "hyperparameters": {"penalty_weight": 1},
                        "search": {"penalty_weight": [1]},
                    }
                ]
            },
            "is in hyperparameters and in search",
        ),
    ],
)
def test_a_bad_plan_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as error:
        planned(changed(**fields))
    assert words in str(error.value)


DIGITS = "coloured-digits"
GRID: dict[str, Any] = {"draws": None, "search": None}


def lines_of(**fields: Any) -> list[str]:
    """The problems of the small plan with fields replaced."""
    with pytest.raises(SettingError) as error:
        planned(changed(**fields))
    return [line.removeprefix("  - ") for line in str(error.value).splitlines()[1:]]


@pytest.mark.parametrize("where", ["grid", "search"])
def test_what_the_plan_sets_itself_is_neither_searched_nor_in_a_grid(where: str) -> None:
    paths = ["objective.name", "data.test", "data.seed", "data.settings.x", "training.seed"]
    paths += ["batches.seed", "data.dataset", "objective", "data", "objective.hyperparameters"]
    given = {path: [1, 2] for path in paths} | {"learning_rate": [0.1, 0.2]}
    (line,) = lines_of(**(GRID if where == "grid" else {}), **{where: given})
    assert line.startswith(f"{where} cannot hold {', '.join(paths)}: ")


def test_run_names_all_fields_that_the_plan_sets() -> None:
    (line,) = lines_of(run={"objective": {"name": "erm"}, "data": {"seed": 1, "test": []}})
    assert line.startswith("run cannot hold objective, data.test, data.seed: ")


def test_sets_of_test_domains_differ() -> None:
    pair = ["source-01", "source-02"]
    (line,) = lines_of(datasets=[{"name": DIGITS, "held_out": [pair, pair[::-1]]}])
    assert "is listed twice" in line
    both = lines_of(datasets=[{"name": DIGITS, "held_out": ["zzz", "yyy"]}])
    assert all(f"the domain {name!r} does not exist" in " ".join(both) for name in ("zzz", "yyy"))


def test_random_sets_of_test_domains_differ_and_are_refused_if_there_are_not_as_many() -> None:
    def datasets(splits: int) -> list[dict[str, Any]]:
        return [{"name": DIGITS, "held_out": {"share": 0.01, "splits": splits}}]

    runs = runs_of(changed(datasets=datasets(60), objectives=["erm"]), draw=0)
    assert len({run.held_out for run in runs}) == len(runs) == 60
    (line,) = lines_of(datasets=datasets(61))
    assert "splits is 61, but 60 domains have only 60 sets of 1" in line


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"draws": 10**30}, "draws must be None or an integer from 1 to 1000000"),
        ({"trials": 10**30}, "trials must be an integer from 1 to 1000000"),
        (
            {"datasets": [{"name": DIGITS, "held_out": {"share": 0.5, "splits": 10**30}}]},
            "splits must be an integer from 1 to 1000000",
        ),
        ({"draws": 10**6}, "The plan has 2,000,000 runs"),
        (
            {**GRID, "grid": {f"training.{n}": list(range(100)) for n in "abcdef"}},
            "000 runs",
        ),
        ({"run": {"steps": 10**30}}, "steps must be at most 1,000,000,000"),
    ],
)
def test_numbers_have_limits(fields: dict[str, Any], words: str) -> None:
    assert words in "\n".join(lines_of(**fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"draws": True, "trials": 1.5, "seed": -1, "search": None},
            ["draws must be", "trials must be", "seed must be"],
        ),
        (
            {"datasets": [{"name": DIGITS, "held_out": {"share": math.nan, "splits": -3}}]},
            ["share must be", "splits must be"],
        ),
        (
            {"adaptive": {"sampler": "tp", "pruner": "x", "alpha": 3, "at_once": 0, "zz": 1}},
            ["no field 'zz'", "Unknown sampler 'tp'", "Unknown pruner 'x'", "got 3", "at_once"],
        ),
        (
            {"objectives": [{"name": "eqrm", "hyperparameters": {"alpha": 2, "zz": 1}}]},
            ["'zz'", "got 2"],
        ),
        (
            {"objectives": [{"name": "eqrm", "hyperparameters": {"alpha": 2}, "zz": 1}]},
            ["no field 'zz'", "got 2"],
        ),
        (
            {"models": [{"name": "lightgbm", "settings": {"max_depth": "x"}, "label": ""}]},
            ["max_depth must be None or a number, got 'x'", "models[0].label must be printable"],
        ),
        ({"objectives": [{"name": "erm", "label": "a\x07b"}]}, ["objectives[0].label must be"]),
        ({"models": ["linear", "linear"]}, ["models lists 'linear' twice"]),
        (
            {"models": [{"name": "linear", "label": "erm"}]},
            ["objectives and models both list 'erm'"],
        ),
        ({**GRID, "grid": {}}, ["grid has no fields"]),
        (
            {"adaptive": {"sampler": {"name": "tpe", "settings": {"n_startup_trials": -5}}}},
            ["n_startup_trials must be an integer of at least 0, got -5"],
        ),
    ],
)
def test_every_problem_of_an_entry_is_said(fields: dict[str, Any], words: list[str]) -> None:
    if "adaptive" in fields:
        pytest.importorskip("optuna", reason="adaptive needs the package optuna")
    text = "\n".join(lines_of(**fields))
    assert [each for each in words if each not in text] == []


def test_a_range_that_cannot_be_run_is_one_problem() -> None:
    given = {"learning_rate": {"uniform": [-5, -1]}}
    (line,) = lines_of(draws=6, search=given)
    assert line.startswith("search.learning_rate: ")
    assert line.endswith("must be None or a number above 0, got -5.0.")


def test_every_field_that_cannot_be_searched_is_said() -> None:
    given = {"learning_rat": [1, 2], "predictor.settings.widht": [1, 2], "schedule": ["linear"]}
    lines = lines_of(search=given)
    assert len(lines) == 3
    assert ["learning_rate" in lines[0], "width" in lines[1], "linear" in lines[2]] == [True] * 3
    own = [{"name": "groupdro", "search": {"step_size": [-1]}}]
    (line,) = lines_of(objectives=own)
    assert line.startswith(f"groupdro on {DIGITS}: search.{STEP_SIZE}: ")


def test_run_is_checked_where_no_dataset_is_valid() -> None:
    lines = lines_of(datasets=["colored-mnits"], run={"schedule": "linear"})
    assert any("Unknown schedule 'linear'" in line for line in lines)


def test_content_that_is_not_a_plan_is_refused() -> None:
    with pytest.raises(SettingError, match="A plan must hold fields"):
        planned_sweep(["erm"], "plan.yaml")
