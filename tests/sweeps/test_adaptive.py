"""Adaptive sweeps: what is proposed follows from the folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from eqrm.errors import DataFileError, SettingError
from eqrm.objectives.hyperparameters import ChoiceSpace, LogUniformSpace, UniformSpace
from eqrm.sweeps import read_records, sweep_status, sweep_tables
from eqrm.sweeps.optuna_study import AdaptiveSettings, TriedDraw, proposed_draw
from eqrm.sweeps.sweep import AdaptiveDraws, run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.tables.grid import planned_places
from sweeps.small_plans import HereEngine, changed, planned

pytest.importorskip("optuna")
RATE = "learning_rate"
FEW = {"name": "tpe", "settings": {"n_startup_trials": 2}}
SPACES = {
    "x": UniformSpace(-1.0, 1.0),
    "rate": LogUniformSpace(10, -4, 0),
    "steps": LogUniformSpace(10, 0, 2, integer=True),
    "widths": ChoiceSpace(([4], [8], [4, 4])),
}


def values_of(sweep: Any, folder: SweepFolder) -> list[dict[str, Any]]:
    run_sweep(sweep, folder, HereEngine(folder))
    return [place["settings"] for place in folder.runs()]


def tried(number: int) -> list[TriedDraw]:
    """Draws whose value is smallest at x = 0.3, rate = 0.01 and widths = [8]."""
    settings, found = AdaptiveSettings(sampler="random"), []
    for seed in range(number):
        values = proposed_draw(settings, SPACES, found, seed)
        loss = (values["x"] - 0.3) ** 2 + (math.log10(values["rate"]) + 2) ** 2
        found.append(TriedDraw(values, "complete", loss + (values["widths"] != [8])))
    return found


@pytest.mark.parametrize("sampler", ["tpe", pytest.param("gp", marks=pytest.mark.full)])
def test_samplers_propose_what_was_good_and_the_same_for_the_same_seed(sampler: str) -> None:
    known, settings = tried(40), AdaptiveSettings(sampler=sampler)
    outside = TriedDraw({"x": 7.0, "rate": 1.0, "steps": 1, "widths": [4]}, "complete", -9.0)
    running = TriedDraw(known[0].values, "running")
    found = [proposed_draw(settings, SPACES, [outside, *known, running], seed) for seed in range(4)]
    assert found[0] == proposed_draw(settings, SPACES, [outside, *known, running], 0)
    distance = [abs(each["x"] - 0.3) + abs(math.log10(each["rate"]) + 2) for each in found]
    before = [abs(d.values["x"] - 0.3) + abs(math.log10(d.values["rate"]) + 2) for d in known]
    assert sum(distance) / len(distance) < 0.6 * sum(before) / len(before)
    assert all(isinstance(each["steps"], int) and 1 <= each["steps"] <= 100 for each in found)
    assert all(each["widths"] in ([4], [8], [4, 4]) for each in found)


@pytest.mark.full
def test_every_search_starts_at_the_defaults_and_its_draws_are_recorded(tmp_path: Path) -> None:
    content = changed(
        datasets=[{"name": "coloured-digits", "held_out": ["source-01", "source-02"]}],
        objectives=["erm"],
        draws=3,
        trials=2,
        adaptive={"sampler": FEW},
    )
    sweep, folder = planned(content), SweepFolder(tmp_path / "sweep")
    assert len(sweep.searches) == 4  # two test domains, two trials
    values = values_of(sweep, folder)
    rates = [value[RATE] for value in values]
    assert rates[::3] == [1e-3] * 4
    assert len(set(rates)) == 1 + 8
    assert all(1e-3 <= rate <= 1e-1 for rate in rates)
    records = {record.run: record for record in read_records(folder.path)}
    for place in folder.runs():
        assert records[place["run"]].place() == place
    assert sweep_status(folder.path).line() == "12 of 12 runs finished"
    found = sweep_tables(records.values(), planned=planned_places(folder.path))
    assert found.missing == ()


def test_a_stopped_search_goes_on_with_the_same_draws(tmp_path: Path) -> None:
    content = changed(objectives=["groupdro"], draws=5, adaptive={"sampler": FEW, "at_once": 1})
    sweep = planned(content)
    undisturbed, stopped = SweepFolder(tmp_path / "one"), SweepFolder(tmp_path / "two")
    expected = values_of(sweep, undisturbed)

    class Stopping(HereEngine):
        def submit(self, run: str) -> None:
            if len(self.submitted) == 2:
                raise KeyboardInterrupt
            super().submit(run)

    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            run_sweep(sweep, stopped, Stopping(stopped))
        stopped = SweepFolder(stopped.path)
        if sum(stopped.state(place["run"]) == "finished" for place in stopped.runs()) >= 4:
            break
    assert values_of(sweep, SweepFolder(stopped.path)) == expected
    assert [r.to_dict() for r in read_records(stopped.path)] == [
        r.to_dict() for r in read_records(undisturbed.path)
    ]


def test_deleted_proposals_are_made_again_and_damaged_files_say_what_to_do(tmp_path: Path) -> None:
    content = changed(objectives=["groupdro"], draws=3, adaptive={"sampler": FEW, "at_once": 1})
    sweep, folder = planned(content), SweepFolder(tmp_path / "out")
    expected = values_of(sweep, folder)
    for number in (0, 1):
        (folder.path / "draws" / f"{number:06d}.json").unlink()
    again = SweepFolder(folder.path)
    draws = AdaptiveDraws(sweep, again)
    assert [run.draw for run in draws.more(9)] == [2, 0, 1]  # nothing is trained: all are recorded
    assert draws.left == 0
    assert [place["settings"] for place in again.runs()] == expected
    assert all(again.state(place["run"]) == "finished" for place in again.runs())
    for damaged, words in (
        ("draws/000001.json", "Delete it and run the sweep again with the same command: the run"),
        ("sweep.json", "Delete it and run the sweep again with the same command: finished"),
    ):
        path = folder.path / damaged
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(DataFileError, match=words) as refused:
            sweep_status(folder.path)
        assert str(path) in str(refused.value)


def test_sweeps_that_share_a_folder_share_the_draws(tmp_path: Path) -> None:
    sweep = planned(changed(draws=3, adaptive={"sampler": "random"}))
    folders = [SweepFolder(tmp_path / "sweep") for _ in range(2)]
    folders[0].begin(sweep.content, sweep.runs_listed())
    first, second = (AdaptiveDraws(sweep, folder) for folder in folders)
    mine = first.more(2)
    assert [(run.objective, run.draw) for run in mine] == [("erm", 0), ("groupdro", 0)]
    assert [run.run for run in second.more(0)] == [run.run for run in mine]
    with folders[0].proposing() as own:
        assert own
        assert second.more(1) == []  # the other sweep is proposing
    rest = second.more(9)
    assert len({run.run for run in (*mine, *rest)}) == 6
    assert {run.run for run in first.more(0)} == {run.run for run in rest}
    assert (first.left, second.left) == (0, 0)


PAIRS = [{"name": "coloured-digits", "held_out": ["source-01", ["source-01", "source-02"]]}]
UNSEARCHED: dict[str, Any] = {"adaptive": {}, "draws": None, "search": None}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"adaptive": {"sampler": "tpa", "alpha": 3, "at_once": 0, "zz": 1}}, "no field 'zz'"),
        ({"adaptive": {"sampler": "tpa", "alpha": 3}}, "Unknown sampler 'tpa'. Did you mean 'tpe'"),
        ({"adaptive": {"at_once": 0}}, "at_once must be an integer from 1"),
        ({"adaptive": {"sampler": {"name": "tpe", "settings": {"a": 3}}}}, "no setting 'a'"),
        ({"adaptive": {"sampler": {"name": "tpe", "settings": {"seed": 3}}}}, "plan's seed"),
        (UNSEARCHED, "adaptive need draws of at least 2"),
        ({"adaptive": {}, "draws_per_trial": True}, "draws_per_trial is for random draws"),
        ({**UNSEARCHED, "grid": {RATE: [0.1]}}, "grid cannot be combined with"),
        ({"adaptive": {}, "datasets": PAIRS}, "each-and-pairs"),
        ({"adaptive": {}, "run": {"data": {"validation": []}}}, "adaptive needs validation data"),
    ],
)
def test_a_bad_adaptive_plan_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as error:
        planned(changed(**fields))
    assert words in str(error.value)


def test_without_optuna_the_plan_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(SettingError, match=r"pip install 'eqrm\[optuna\]'"):
        planned(changed(adaptive={}))


def test_lengths_of_phases_that_are_proposed_fit_into_the_run(tmp_path: Path) -> None:
    run = {"steps": 2600, "phases": "recommended"}
    sweep = planned(changed(objectives=["eqrm"], draws=3, run=run, adaptive={"sampler": "random"}))
    folder = SweepFolder(tmp_path / "sweep")
    folder.begin(sweep.content, sweep.runs_listed())
    runs = AdaptiveDraws(sweep, folder).more(3)
    for each in runs[1:]:
        assert 316 <= each.settings["phases.0.steps"] < 2600
