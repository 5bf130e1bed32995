"""``eqrm sweep``: plans from files, all problems in one message, failures in the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.commands import called
from eqrm.files.writing import whole_file
from eqrm.sweeps.engines import local
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.small_plans import HereEngine, changed


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are trained in this process; tests/sweeps/test_killing.py has the real workers."""

    def engine(
        folder: Path, data_root: Path | None, *, workers: int | None = None, threads: int = 1
    ) -> HereEngine:
        assert (workers in (None, 1), threads, data_root) == (True, 1, None)
        return HereEngine(SweepFolder(folder))

    monkeypatch.setattr(local, "LocalEngine", engine)


def plan_file(folder: Path, **fields: Any) -> str:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(changed(objectives=["erm"], **fields)), encoding="utf-8")
    return str(path)


def test_a_plan_is_checked_run_and_its_status_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = plan_file(tmp_path)
    code, out, _ = called("sweep", plan, "--check")
    assert (code, out) == (0, f"{plan} is valid: 2 runs, which would be written to sweeps/small\n")
    assert not (tmp_path / "sweeps").exists()
    code, out, err = called("sweep", "--workers", "1", plan)
    assert (code, out) == (0, "2 runs finished, in sweeps/small\nTable: eqrm table sweeps/small\n")
    assert err.splitlines()[-1] == "2 of 2 runs finished"
    code, out, _ = called("sweep", "status", "sweeps/small")
    assert (code, out.splitlines()[0]) == (0, "2 of 2 runs finished")


def test_failed_runs_give_exit_code_1(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, draws=None, search=None, grid={"learning_rate": [1e-2, 1e30]})
    code, out, _ = called("sweep", plan, "--output", str(tmp_path / "out"))
    assert code == 1
    assert "1 run finished" in out
    assert "1 run failed:" in out
    assert "--retry-failed" in out


def test_a_bad_plan_gives_exit_code_2(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, trails=2)
    code, out, err = called("sweep", plan, "--output", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert f"{plan} has 1 problem:" in err
    assert "Did you mean 'trials'?" in err
    assert not (tmp_path / "out").exists()


def test_ctrl_c_is_answered_with_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: HereEngine, seconds: float) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(HereEngine, "poll", interrupted)
    code, out, err = called("sweep", plan_file(tmp_path), "--output", str(tmp_path / "out"))
    assert (code, out) == (130, "")
    assert "Stopped. Run the same command again to continue." in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is full")
def test_a_full_disk_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: SweepFolder, *run: object) -> None:
        with whole_file(self.path / "runs.json"):
            Path("/dev/full").write_text("something", encoding="utf-8")

    monkeypatch.setattr(SweepFolder, "prepare", full)
    out = tmp_path / "out"
    code, _, err = called("sweep", plan_file(tmp_path), "--output", str(out))
    assert code == 2
    assert f"The disk is full: {out / 'runs.json'} cannot be written." in err
    assert "No finished run is lost" in err
    assert "--retry-failed" in err
    assert "permissions" not in err
    assert not (out / "runs.json").exists()
