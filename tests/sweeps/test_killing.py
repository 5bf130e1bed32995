"""A sweep that is killed again and again ends with the records of an undisturbed one."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from eqrm.sweeps.planned_runs import PlannedSweep
from eqrm.sweeps.records import record_path
from eqrm.sweeps.status import sweep_status
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.killing import killed_and_continued, start, wait_for_a_worker, workers_of, written
from sweeps.small_plans import HereEngine, changed, planned, records_of

LONG = {
    "steps": 200,
    "training": {"device": "cpu", "evaluate_every": 100, "checkpoint_every": 20, "log_every": 50},
}


class Watch(threading.Thread):
    """Notes when each record was first seen, so that one that is written twice is found."""

    def __init__(self, folder: Path, sweep: PlannedSweep) -> None:
        super().__init__(daemon=True)
        self.paths = [record_path(folder, run.run) for run in sweep.runs]
        self.seen: dict[Path, int] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            for path in self.paths:
                if path not in self.seen and path.is_file():
                    self.seen[path] = path.stat().st_mtime_ns

    def written_twice(self) -> list[Path]:
        self.over.set()
        self.join()
        return [path for path, time in self.seen.items() if path.stat().st_mtime_ns != time]


def compare(tmp_path: Path, content: dict[str, Any], kills: int, seed: int) -> tuple[int, int]:
    sweep, plan = planned(content), written(tmp_path / "plan.yaml", content)
    undisturbed = SweepFolder(tmp_path / "undisturbed")
    run_sweep(sweep, undisturbed, HereEngine(undisturbed))
    folder = tmp_path / "killed"
    watch = Watch(folder, sweep)
    watch.start()
    counts = killed_and_continued(plan, folder, kills, seed)
    assert watch.written_twice() == []
    assert records_of(folder, sweep) == records_of(undisturbed.path, sweep)
    return counts


def test_a_killed_worker_and_a_killed_sweep_change_no_record(tmp_path: Path) -> None:
    assert compare(tmp_path, changed(run=LONG), kills=2, seed=1) == (1, 1)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["random", "grid"])
def test_forty_runs_and_twenty_kills_change_no_record(tmp_path: Path, kind: str) -> None:
    content = changed(run=LONG, draws=5, trials=4)
    if kind == "grid":
        grid = {"learning_rate": [0.1, 0.03, 0.01, 0.003, 0.001]}
        content = changed(run=LONG, draws=None, search=None, grid=grid, trials=4)
    assert len(planned(content).runs) == 40
    assert compare(tmp_path, content, kills=20, seed=2) == (10, 10)


def test_two_sweeps_share_a_folder_and_ctrl_c_stops_each_after_saving(tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.yaml", changed(run={**LONG, "steps": 1_000_000}))
    folder = tmp_path / "sweep"
    sweeps = [start(plan, folder, workers=1) for _ in range(2)]
    deadline = time.monotonic() + 120
    while len(set(workers_of(folder))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(set(workers_of(folder))) == 2  # two processes, two runs
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
    process = start(plan, tmp_path / "sweep")
    assert wait_for_a_worker(tmp_path / "sweep", process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while workers_of(tmp_path / "sweep") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers_of(tmp_path / "sweep") == []


@pytest.mark.full
@pytest.mark.parametrize("size", ["300k", "600k", "900k"])
def test_a_full_disk_loses_nothing(tmp_path: Path, size: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        sweep, folder = planned(changed(draws=4)), SweepFolder(disk / "sweep")
        full = False
        try:
            full = bool(run_sweep(sweep, folder, HereEngine(folder)).failures)
        except OSError as error:
            full = error.errno == errno.ENOSPC
        assert full
        finished = {run.run for run in sweep.runs if folder.is_finished(run.run)}
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        engine = HereEngine(folder)
        assert run_sweep(sweep, folder, engine, retry_failed=True).finished == len(sweep.runs)
        assert not finished & set(engine.submitted)
        undisturbed = SweepFolder(tmp_path / "undisturbed")
        run_sweep(sweep, undisturbed, HereEngine(undisturbed))
        assert records_of(folder.path, sweep) == records_of(undisturbed.path, sweep)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
