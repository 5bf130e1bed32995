"""Plans that hold out later domains: at one origin or at several, with windows and gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from eqrm.errors import SettingError
from eqrm.sweeps import read_records
from eqrm.sweeps.planned_runs import PlannedRun, PlannedSweep
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.table_runs import MODEL
from eqrm.tabular.model import load_table_model
from eqrm.training.runs.run_data import RunData
from sweeps.small_plans import HereEngine, changed, planned

DAYS, ROWS = 20, 6
DATES = [str(np.datetime64("2013-01-01") + day) for day in range(DAYS)]


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days in order, and shops in another order; a shop is open on one day."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    day, x = np.repeat(np.arange(DAYS), ROWS), rng.normal(size=DAYS * ROWS)
    frame = pd.DataFrame({"day": np.array(DATES)[day], "x": x, "y": (x > 0).astype(int)})
    frame["shop"] = [f"s{7 * each % DAYS:02d}" for each in day]
    frame.sample(frac=1, random_state=0).to_csv("days.csv", index=False)


def plan(held_out: Any, domain: str = "day", **fields: Any) -> PlannedSweep:
    settings = {"file": "days.csv", "target": "y", "domain": domain, "features": ["x"]}
    settings |= fields.pop("settings", {})
    dataset = {"name": "table", "settings": settings, "held_out": held_out}
    plain = {"objectives": ["erm"], "draws": None, "search": None, **fields}
    small = {"batches": {"domains": 2, "examples": 2}, **plain.pop("run", {})}
    return planned(changed(datasets=[dataset], run=small, **plain))


def runs(held_out: Any, domain: str = "day", **fields: Any) -> tuple[PlannedRun, ...]:
    return plan(held_out, domain, **fields).runs


def test_later_days_are_tested_and_earlier_ones_trained_on() -> None:
    for held_out in ({"after": "2013-01-15"}, {"last": 0.25}):
        (run,) = runs(held_out)
        assert run.held_out == tuple(DATES[15:])
        assert run.config.data.leave_out is None
        data = RunData.read(run.config.data)
        assert data.train.names == tuple(DATES[:15])
    (run,) = runs({"last": 0.25}, "shop", settings={"order": "day"})
    assert set(run.held_out) == {f"s{7 * day % DAYS:02d}" for day in range(15, DAYS)}


def test_several_origins_roll_or_expand_and_leave_a_gap() -> None:
    expanding = runs({"last": 0.5, "origins": 3})
    assert [len(run.held_out) for run in expanding] == [3, 4, 3]
    assert sum((run.held_out for run in expanding), ()) == tuple(DATES[10:])
    rolling = runs({"last": 0.5, "origins": 2, "window": 4, "gap": 2}, trials=2)
    assert len({run.run for run in rolling}) == 4
    for run, start in zip(rolling[:2], (10, 15), strict=True):
        data = RunData.read(run.config.data)
        assert data.train.names == tuple(DATES[start - 6 : start - 2])
        assert data.held_out["test"].names == tuple(DATES[start : start + 5])
        used = {*data.train.names, *run.held_out}
        assert {*data.held_out["validation"].names} <= used
        assert set(map(str, run.config.data.leave_out or ())) == set(DATES) - used


def test_a_sweep_over_origins_is_trained_to_its_end(tmp_path: Path) -> None:
    sweep = plan({"last": 0.5, "origins": 2}, objectives=None, models=["linear"])
    folder = SweepFolder(tmp_path / "sweep")
    assert run_sweep(sweep, folder, HereEngine(folder)).failures == ()
    first, second = read_records(folder.path)
    assert first.held_out == tuple(DATES[10:15])
    assert set(first.checkpoints[0].risks["train"]) == set(DATES[:10])
    assert set(second.checkpoints[0].risks["train"]) == set(DATES[:15])
    model = load_table_model(folder.of_run(first.run) / MODEL)
    assert model.seen is not None
    assert model.seen.among(DATES) == DATES[:10]


@pytest.mark.parametrize(
    ("held_out", "words"),
    [
        ({"last": 1.5, "origins": 0, "gap": -1}, "got 1.5. origins must be an integer from 1 to"),
        ({"last": 0.5, "window": 0}, "window must be None or an integer of at least 1, got 0"),
        ({"last": 0.5, "after": 3}, "give either after (a date or a number) or last (a share)"),
        ({"gap": 1}, "give either after (a date or a number) or last (a share)"),
        ({"lst": 0.5}, "has no field 'lst'. Did you mean 'last'?"),
        ({"after": "June"}, "held_out: Cannot test after 'June'"),
        ({"after": "2014"}, "0 domains of 20 are later: too few"),
        ({"after": "2012"}, "all 20 domains are later than 2012: none is left to train on"),
        ({"last": 0.5, "origins": 11}, "10 domains of 20 are later: too few"),
        ({"last": 0.5, "gap": 10}, "No domain is left to train on before 2013-01-11"),
    ],
)
def test_what_cannot_be_held_out_is_a_problem_of_the_plan(
    held_out: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingError) as error:
        runs(held_out)
    assert words in str(error.value)
