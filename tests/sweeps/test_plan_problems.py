"""What is wrong with a plan of a sweep is refused before the first run, all of it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eqrm.errors import SettingError
from eqrm.sweeps.planned_runs import planned_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.small_plans import SMALL, changed, planned

DIGITS = "coloured-digits"
GRID: dict[str, Any] = {"draws": None, "search": None}


def lines_of(folder: SweepFolder | None = None, **fields: Any) -> list[str]:
    """The problems of the small plan with fields replaced."""
    with pytest.raises(SettingError) as error:
        planned_sweep(changed(**fields), "plan.yaml", None, folder)
    first, *lines = str(error.value).splitlines()
    assert first == f"plan.yaml has {len(lines)} problem{'s' if len(lines) > 1 else ''}:"
    return [line.removeprefix("  - ") for line in lines]


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep")
    good = planned(SMALL)
    folder.begin(good.content, good.runs_listed())
    datasets = ["colored-mnits", {"name": DIGITS, "held_out": "every", "label": "other"}]
    objectives = [
        "grupdro",
        {"name": "eqrm", "hyperparameters": {"alpha": 2}},
        {"name": "sd", "search": {"weight": [1]}},
    ]
    search = {"learning_rate": {"log-uniform": [1, 2]}}
    fields = {"datasets": datasets, "objectives": objectives, "search": search}
    text = "\n".join(lines_of(folder, trails=3, draws=0, **fields))
    for words in (
        "no field 'trails'. Did you mean 'trials'?",
        "draws must be None or an integer from 1 to 1,000,000, got 0",
        "Unknown dataset 'colored-mnits'. Did you mean 'colored-mnist'?",
        "Unknown choice of held_out 'every'",
        "Unknown objective 'grupdro'. Did you mean 'groupdro'?",
        "alpha",
        "no hyperparameter 'weight'",
        "belongs to another plan",
    ):
        assert words in text
    table = {"file": "nowhere.csv", "target": "y", "domain": "d"}
    datasets = [{"name": DIGITS, "held_out": ["source-1"]}, {"name": "table", "settings": table}]
    missing, file = lines_of(datasets=datasets)
    assert "the domain 'source-1' does not exist. Did you mean 'source-" in missing
    assert "nowhere.csv" in file
    assert not list((tmp_path / "sweep" / "runs").iterdir())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"datasets": []}, "datasets must be a list with at least one entry"),
        ({"objectives": ["erm", "ERM"]}, "objectives and models list 'erm' twice"),
        ({"grid": {"steps": [5]}}, "grid cannot be combined with draws"),
        ({"draws": 1}, "search and adaptive need draws of at least 2"),
        ({"run": {"data": {"seed": 1}}}, "run cannot hold data.seed"),
        ({"search": {"steps": {"uniform": [3]}}}, "search.steps needs two numbers"),
        ({"run": {"predictor": {"name": "resnet18"}}}, "takes images"),
        ({"search": {"predictor.settings.widht": [1, 2]}}, "Did you mean 'width'?"),
        ({"search": {"learning_rate": {"log-uniform": [0, 1]}}}, "numbers above 0"),
        ({"search": {"learning_rate": {"normal": [0, 1]}}}, "no kind of range 'normal'"),
        ({"search": {"steps": {"uniform": [1, 2], "integer": True}}}, "List the integers"),
        ({"search": {"learning_rate": 0.1}}, "must be a list of values"),
        ({**GRID, "grid": {"learning_rate": [0.1, 0.1]}}, "lists 0.1 twice"),
        ({**GRID, "grid": {f"training.{n}": list(range(100)) for n in "abcdef"}}, "000 runs"),
        ({"draws": 10**6}, "The plan has 2,000,000 runs"),
        ({"datasets": [{"name": DIGITS, "held_out": [["source-01"] * 2]}]}, "a domain twice"),
        ({"objectives": [{"name": "erm", "label": "a\x07b"}]}, "objectives[0]: label must be"),
        ({"search": {"learning_rate": {"uniform": [-5, -1]}}}, f"erm on {DIGITS}: learning_rate"),
        (
            {"objectives": [{"name": "groupdro", "search": {"step_size": [-1]}}]},
            f"groupdro on {DIGITS}: objective: GroupDRO's step_size ",
        ),
        (
            {"datasets": [{"name": DIGITS, "held_out": {"share": 0.01, "splits": 61}}]},
            "splits is 61, but 60 domains have only 60 sets of 1",
        ),
    ],
)
def test_a_bad_plan_is_refused(fields: dict[str, Any], words: str) -> None:
    assert words in "\n".join(lines_of(**fields))


@pytest.mark.parametrize("where", ["grid", "search"])
def test_what_the_plan_sets_itself_is_neither_searched_nor_in_a_grid(where: str) -> None:
    paths = ["objective.name", "data.test", "data.seed", "data.settings.x", "training.seed"]
    paths += ["batches.seed", "data.dataset", "objective", "data", "objective.hyperparameters"]
    given = {path: [1, 2] for path in paths} | {"learning_rate": [0.1, 0.2]}
    (line,) = lines_of(**(GRID if where == "grid" else {}), **{where: given})
    assert line.startswith(f"{where} cannot hold {', '.join(paths)}: ")
