"""A sweep that is killed again and again ends with the records of an undisturbed one."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from eqrm.sweeps import read_records, sweep_status, sweep_tables
from eqrm.sweeps.records import record_path, recorded_runs
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.tables.formats import to_text
from eqrm.sweeps.tables.grid import planned_places
from sweeps.killing import (
    killed_and_continued,
    start,
    wait_for_a_worker,
    wait_until,
    workers_of,
    written,
)
from sweeps.small_plans import HereEngine, changed, planned, records_of

ADAPTIVE = {"sampler": {"name": "tpe", "settings": {"n_startup_trials": 3}}}
LONG = {
    "steps": 200,
    "training": {"device": "cpu", "evaluate_every": 100, "checkpoint_every": 20, "log_every": 50},
}


class Watch(threading.Thread):
    """Notes when each record and each proposed run was first seen: none may be written again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.seen: dict[Path, int] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            for pattern in ("runs/*/record.json", "draws/[0-9]*.json"):
                for path in self.folder.glob(pattern):
                    if path not in self.seen:
                        self.seen[path] = path.stat().st_mtime_ns

    def written_twice(self) -> list[Path]:
        self.over.set()
        self.join()
        return [path for path, time in self.seen.items() if path.stat().st_mtime_ns != time]


def killed(tmp_path: Path, content: dict[str, Any], kills: int, seed: int) -> Path:
    """The folder of a sweep that was killed and continued."""
    plan, folder = written(tmp_path / "plan.yaml", content), tmp_path / "killed"
    watch = Watch(folder)
    watch.start()
    killed_and_continued(plan, folder, len(planned(content).runs_listed()), kills, seed)
    assert watch.written_twice() == []
    return folder


def table(folder: Path) -> str:
    found = sweep_tables(read_records(folder), planned=planned_places(folder))
    return to_text(found, selected=True)


@pytest.mark.full
def test_forty_runs_and_twenty_kills_change_no_record(tmp_path: Path) -> None:
    grid = {"learning_rate": [0.1, 0.03, 0.01, 0.003, 0.001]}
    content = changed(run=LONG, draws=None, search=None, grid=grid, trials=4)
    sweep, undisturbed = planned(content), SweepFolder(tmp_path / "undisturbed")
    assert len(sweep.runs) == 40
    run_sweep(sweep, undisturbed, HereEngine(undisturbed))
    folder = killed(tmp_path, content, kills=20, seed=2)
    assert records_of(folder, sweep) == records_of(undisturbed.path, sweep)
    assert table(folder) == table(undisturbed.path)


@pytest.mark.full
def test_twenty_kills_lose_and_repeat_nothing_of_an_adaptive_sweep(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    content = changed(run=LONG, draws=10, trials=2, adaptive=ADAPTIVE)
    folder = killed(tmp_path, content, kills=20, seed=3)
    assert_whole(SweepFolder(folder), 40)


def assert_whole(folder: SweepFolder, runs: int) -> None:
    """Every place has one run, every run has one place and one record, and nothing is left."""
    places = folder.runs()
    names = [place["run"] for place in places]
    assert None not in names
    assert len(set(names)) == len(names) == runs
    assert {path.name for path in (folder.path / "runs").iterdir()} == set(names)
    assert all(folder.is_finished(name) for name in names)
    assert sweep_status(folder.path).line() == f"{runs} of {runs} runs finished"


@pytest.mark.full
def test_two_sweeps_share_a_folder_and_ctrl_c_stops_each_after_saving(tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.yaml", changed(run={**LONG, "steps": 1_000_000}))
    folder = tmp_path / "sweep"
    sweeps = [start(plan, folder, "--workers", "1") for _ in range(2)]
    wait_until(lambda: len(set(workers_of(folder))) == 2, "two processes with a run each")
    for left, sweep in zip((1, 0), sweeps, strict=True):
        wait_for_a_worker(folder, sweep)
        sweep.send_signal(signal.SIGINT)
        _, err = sweep.communicate(timeout=90)
        assert sweep.returncode == 130, err
        assert "Stopped. Run the same command again to continue." in err
        assert len(workers_of(folder)) == left
    status = sweep_status(folder)
    assert status.line() == "0 of 4 runs finished, 4 waiting"
    assert status.failures == []


@pytest.mark.full
def test_a_worker_ends_when_its_sweep_is_killed(tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.yaml", changed(run={**LONG, "steps": 100_000}))
    process = start(plan, tmp_path / "sweep", "--workers", "2")
    assert wait_for_a_worker(tmp_path / "sweep", process)
    process.kill()
    process.communicate()
    wait_until(lambda: not workers_of(tmp_path / "sweep"), "no worker", 60)


@pytest.mark.full
@pytest.mark.parametrize("size", ["300k", "600k", "900k"])
@pytest.mark.parametrize("kind", ["random", "adaptive"])
def test_a_full_disk_loses_nothing(tmp_path: Path, size: str, kind: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    content = changed(draws=4)
    if kind == "adaptive":
        pytest.importorskip("optuna")
        content = changed(draws=4, adaptive={"sampler": "tpe"})
    try:
        sweep, folder = planned(content), SweepFolder(disk / "sweep")
        full = False
        try:
            full = bool(run_sweep(sweep, folder, HereEngine(folder)).failures)
        except OSError as error:
            full = error.errno == errno.ENOSPC
        assert full
        finished = {name: path.stat().st_mtime_ns for name, path in whole_records(folder).items()}
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        engine = HereEngine(folder)
        assert run_sweep(sweep, folder, engine, retry_failed=True).finished == 8
        assert not finished.keys() & set(engine.submitted)
        after = whole_records(folder)
        assert {name: after[name].stat().st_mtime_ns for name in finished} == finished
        assert_whole(SweepFolder(folder.path), 8)
        if kind == "random":
            undisturbed = SweepFolder(tmp_path / "undisturbed")
            run_sweep(sweep, undisturbed, HereEngine(undisturbed))
            assert records_of(folder.path, sweep) == records_of(undisturbed.path, sweep)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def whole_records(folder: SweepFolder) -> dict[str, Path]:
    names = recorded_runs(folder.path)
    return {name: record_path(folder.path, name) for name in names if folder.is_finished(name)}
