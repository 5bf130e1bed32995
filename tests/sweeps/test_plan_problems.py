"""What is wrong with a plan of a sweep is refused before the first run, all of it at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from eqrm.errors import SettingError
from eqrm.sweeps import SweepFolder, planned_sweep
from sweeps.small_plans import SMALL, changed, planned


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep")
    good = planned(SMALL)
    folder.begin(good.content, good.runs_listed())
    content = changed(
        trails=3,
        draws=0,
        datasets=[
            "colored-mnits",
            {"name": "coloured-digits", "held_out": "every", "label": "other"},
        ],
        objectives=[
            "grupdro",
            {"name": "eqrm", "hyperparameters": {"alpha": 2}},
            {"name": "sd", "search": {"weight": [1]}},
        ],
        search={"learning_rate": {"log-uniform": [1, 2]}},
    )
    _refused(
        content,
        folder,
        "no field 'trails'. Did you mean 'trials'?",
        "draws must be None or an integer from 1 to 1,000,000, got 0",
        "Unknown dataset 'colored-mnits'. Did you mean 'colored-mnist'?",
        "Unknown choice of held_out 'every'",
        "Unknown objective 'grupdro'. Did you mean 'groupdro'?",
        "alpha",
        "no hyperparameter 'weight'",
        "belongs to another plan",
    )
    across = changed(search={"steps": {"uniform": [3]}}, run={"objective": {"name": "erm"}})
    _refused(across, None, "search.steps needs two numbers", "run cannot hold objective.name")
    table = {"file": "nowhere.csv", "target": "y", "domain": "d"}
    datasets = [
        {"name": "coloured-digits", "held_out": ["source-1"]},
        {"name": "table", "settings": table},
    ]
    missing = "the domain 'source-1' does not exist. Did you mean 'source-"
    _refused(changed(datasets=datasets), None, missing, "nowhere.csv")
    assert not list((tmp_path / "sweep" / "runs").iterdir())


def _refused(content: dict[str, Any], folder: SweepFolder | None, *words: str) -> None:
    with pytest.raises(SettingError) as error:
        planned_sweep(content, "plan.yaml", None, folder)
    text = str(error.value)
    assert [each for each in words if each not in text] == []
    assert text.startswith("plan.yaml has ")
    assert len(text.splitlines()) - 1 == int(text.split()[2])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"datasets": []}, "datasets must be a list with at least one entry"),
        ({"objectives": ["erm", "ERM"]}, "objectives and models list 'erm' twice"),
        ({"grid": {"steps": [5]}}, "grid cannot be combined with draws"),
        ({"draws": 1}, "search and adaptive need draws of at least 2"),
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
    assert line.startswith("run cannot hold objective.name, data.seed, data.test: ")


def test_sets_of_test_domains_differ() -> None:
    pair = ["source-01", "source-02"]
    (line,) = lines_of(datasets=[{"name": DIGITS, "held_out": [pair, pair[::-1]]}])
    assert "is listed twice" in line
    both = lines_of(datasets=[{"name": DIGITS, "held_out": ["zzz", "yyy"]}])
    assert all(f"the domain {name!r} does not exist" in " ".join(both) for name in ("zzz", "yyy"))


def test_random_sets_of_test_domains_differ_and_are_refused_if_there_are_not_as_many() -> None:
    def datasets(splits: int) -> list[dict[str, Any]]:
        return [{"name": DIGITS, "held_out": {"share": 0.01, "splits": splits}}]

    whole = planned(changed(datasets=datasets(60), objectives=["erm"]))
    runs = [run for run in whole.runs if (run.draw, run.trial) == (0, 0)]
    assert len({run.held_out for run in runs}) == len(runs) == 60
    (line,) = lines_of(datasets=datasets(61))
    assert "splits is 61, but 60 domains have only 60 sets of 1" in line


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"draws": 10**30}, "draws must be None or an integer from 1 to 1,000,000"),
        ({"trials": 10**30}, "trials must be an integer from 1 to 1,000,000"),
        (
            {"datasets": [{"name": DIGITS, "held_out": {"share": 0.5, "splits": 10**30}}]},
            "splits must be an integer from 1 to 1,000,000",
        ),
        ({"draws": 10**6}, "The plan has 2,000,000 runs"),
        (
            {**GRID, "grid": {f"training.{n}": list(range(100)) for n in "abcdef"}},
            "000 runs",
        ),
        ({"run": {"steps": 10**30}}, "steps must be an integer from 1 to 1,000,000,000"),
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
            {"objectives": [{"name": "eqrm", "hyperparameters": {"alpha": 2}, "zz": 1}]},
            ["no field 'zz'", "got 2"],
        ),
        (
            {"models": [{"name": "lightgbm", "settings": {"max_depth": "x"}, "label": ""}]},
            ["models[0]: label must be None or printable text, got ''"],
        ),
        ({"objectives": [{"name": "erm", "label": "a\x07b"}]}, ["objectives[0]: label must be"]),
        (
            {"models": ["linear", "linear", {"name": "linear", "label": "erm"}]},
            ["objectives and models list 'erm', 'linear' twice"],
        ),
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


def test_a_draw_that_cannot_be_run_is_refused_with_its_method() -> None:
    given = {"learning_rate": {"uniform": [-5, -1]}}
    (line, *_) = lines_of(draws=6, search=given)
    assert line.startswith(f"erm on {DIGITS}: learning_rate must be a number above 0, got -")
    (line,) = lines_of(search={"learning_rat": [1, 2]})
    assert line.startswith(f"erm on {DIGITS}: run has no field 'learning_rat'. Did you mean")
    own = [{"name": "groupdro", "search": {"step_size": [-1]}}]
    (line,) = lines_of(objectives=own)
    assert line.startswith(f"groupdro on {DIGITS}: objective: GroupDRO's step_size ")


def test_content_that_is_not_a_plan_is_refused() -> None:
    with pytest.raises(SettingError, match="The plan must hold fields"):
        planned_sweep(["erm"], "plan.yaml")
