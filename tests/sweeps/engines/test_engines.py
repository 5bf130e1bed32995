"""Engines by name, their settings, and what a job of a cluster leaves in the run's folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.commands import called
from eqrm.errors import MissingExtraError, SettingError
from eqrm.sweeps.engines import local, slurm
from eqrm.sweeps.engines.base import ENGINES, make_engine
from eqrm.sweeps.engines.local import LocalEngine
from eqrm.sweeps.engines.slurm import SlurmEngine
from eqrm.sweeps.execution import begin_job, ending_of_job
from eqrm.sweeps.sweep_folder import Failure, SweepFolder
from sweeps.killing import wait_until
from sweeps.small_plans import SMALL, planned


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[SweepFolder, str]:
    """A sweep whose first run can be trained."""
    sweep, folder = planned(SMALL), SweepFolder(tmp_path / "sweep")
    folder.begin(sweep.content, sweep.runs_listed())
    first = sweep.runs[0]
    folder.prepare(first.run, first.place(), first.config.plain())
    return folder, first.run


def test_an_engine_is_chosen_by_name_and_refuses_settings_it_does_not_have(tmp_path: Path) -> None:
    assert list(ENGINES) == ["local", "slurm", "ray"]
    assert isinstance(make_engine("local", tmp_path, None, {"workers": 3}), LocalEngine)
    assert make_engine("local", tmp_path, None, {"workers": 3}).free == 3
    with pytest.raises(SettingError, match=r"Unknown engine 'slrm'\. Did you mean 'slurm'"):
        make_engine("slrm", tmp_path, None, {})
    with pytest.raises(SettingError, match=r"no setting 'partiton'\. Did you mean 'partition'"):
        make_engine("slurm", tmp_path, None, {"partiton": "gpu"})
    with pytest.raises(SettingError, match="no setting 'partition'"):
        make_engine("local", tmp_path, None, {"partition": "gpu"})


def test_the_script_of_a_job_array_is_what_the_settings_say(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"partition": "gpu", "time": "2:00:00", "gpus": "a100:1"}
    settings |= {"setup": ["module load cuda"], "options": ["--exclusive"], "python": "/opt/python"}
    engine = SlurmEngine(tmp_path / "my sweep", "data", workers=4, threads=2, **settings)
    assert {
        *("--requeue", "--array=0-9%4", "--cpus-per-task=2", "--partition=gpu", "--exclusive"),
        *("--time=2:00:00", "--signal=B:TERM@120", "--gres=gpu:a100:1"),
        f"--output={tmp_path}/my sweep/slurm/%A_%a.log",
    } <= set(engine.sbatch_options(10))
    lines = engine.script(["0a", "1b"]).splitlines()
    assert lines[:2] == ["#!/bin/bash", "module load cuda"]
    assert "OMP_NUM_THREADS=2" in lines[2]
    # What a task would execute, said by the shell itself.
    lines[-1] = lines[-1].replace("exec", "echo")
    lines.insert(0, "SLURM_ARRAY_TASK_ID=1")
    said = subprocess.run(
        ["bash"], input="\n".join(lines[0:1] + lines[3:]), capture_output=True, text=True
    )
    folder, root = tmp_path / "my sweep", Path("data").resolve()
    assert said.stdout == (
        f"/opt/python -m eqrm.cli sweep run {folder} 1b --threads 2 --data-root {root}\n"
    )


def test_several_processes_of_a_run_are_started_by_torchrun(tmp_path: Path) -> None:
    engine = SlurmEngine(tmp_path, nodes=2, processes=4, time=60)
    assert {"--nodes=2", "--cpus-per-task=4", "--signal=TERM@120"} <= set(engine.sbatch_options(1))
    script = engine.script(["0a"])
    assert f"exec srun {sys.executable} -m torch.distributed.run --nnodes=2" in script
    assert "--nproc-per-node=4" in script


def test_without_slurm_or_ray_the_error_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingError, match=r"'sbatch' was not found\. Start .* on a login node"):
        SlurmEngine(tmp_path).__enter__()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eqrm\[ray\]'"):
        make_engine("ray", tmp_path, None, {})


def test_a_controller_that_does_not_answer_is_asked_again_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in slurm.COMMANDS:
        (tmp_path / name).write_text(
            "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    queue = slurm.SlurmQueue("eqrm-x")
    assert queue.tasks() is None
    monkeypatch.setattr(slurm, "SILENCE", -1.0)
    with pytest.raises(SettingError, match="Unable to contact slurm controller"):
        queue.tasks()
    with pytest.raises(SettingError, match="sbatch refused the jobs of the sweep"):
        queue.submit(["--array=0-1"], "#!/bin/sh\n")


def test_a_job_trains_its_run_and_says_how_it_ended(prepared: tuple[SweepFolder, str]) -> None:
    folder, run = prepared
    assert ending_of_job(folder, run).ending == "lost"
    with folder.claimed(run):
        assert ending_of_job(folder, run).ending == "elsewhere"
        code, out, _ = called("sweep", "run", str(folder.path), run)
        assert (code, out) == (0, f"Run {run}: another process trains it now.\n")
    code, out, _ = called("sweep", "run", str(folder.path), run)
    assert (code, out.splitlines()[-1]) == (0, f"Run {run}: finished.")
    assert ending_of_job(folder, run).ending == "finished"
    assert (folder.of_run(run) / "log.txt").is_file()
    code, _, err = called("sweep", "run", str(folder.path), "0123")
    assert code == 2
    assert "Unknown run '0123'" in err


def test_what_an_earlier_job_left_is_not_taken_for_the_ending_of_the_next(
    prepared: tuple[SweepFolder, str],
) -> None:
    folder, run = prepared
    folder.write_failure(Failure(run, "No space left on device"))
    assert ending_of_job(folder, run).error == "No space left on device"
    (folder.of_run(run) / "stopped").touch()
    begin_job(folder, run)
    assert ending_of_job(folder, run).ending == "lost"
    (folder.of_run(run) / "stopped").touch()
    assert ending_of_job(folder, run).ending == "stopped"


def test_settings_of_an_engine_come_from_a_file_and_from_options(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("datasets: [coloured-digits]\n")
    settings = tmp_path / "slurm.yaml"
    settings.write_text("partition: gpu\nmemory: -1\nsetup: module load cuda\n")
    options = ["--engine", "slurm", "--engine-file", str(settings), "--engine-set", "nodes=0"]
    code, _, err = called("sweep", str(plan), *options, "--threads", "2")
    assert code == 2
    assert "memory must be None or an integer or a string, got -1." in err
    assert "nodes must be an integer of at least 1, got 0." in err
    assert "setup must be a list of strings" in err
    settings.write_text("- partition\n")
    code, _, err = called("sweep", str(plan), *options)
    assert (code, "must hold settings of the engine" in err) == (2, True)


def test_a_worker_whose_sweep_was_killed_ends_quietly(prepared: tuple[SweepFolder, str]) -> None:
    folder, run = prepared
    (folder.of_run(run) / "run.json").write_text("{", encoding="utf-8")  # it fails at once
    with subprocess.Popen(
        [sys.executable, "-m", "eqrm.sweeps.engines.local", str(folder.path), "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stderr is not None
        worker.stdout.close()
        worker.stdin.write(run + "\n")
        worker.stdin.flush()
        assert worker.stderr.read() == ""
    assert worker.returncode == 0
    assert folder.state(run) == "failed"
    place, config = planned(SMALL).runs[0].place(), planned(SMALL).runs[0].config.plain()
    folder.prepare(run, place, config)
    assert folder.prepared(run) == (place, config)  # what was damaged is written again


def test_a_worker_that_does_not_end_is_killed_and_gone_afterwards(
    prepared: tuple[SweepFolder, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PATIENCE", 0.2)
    folder, run = prepared
    (folder.of_run(run) / "run.json").write_text("{", encoding="utf-8")  # it fails at once
    with LocalEngine(folder.path, workers=1) as engine:
        engine.submit(run)
        (outcome,) = wait_until(lambda: engine.poll(1.0), "an outcome")
        assert outcome.ending == "failed"
        worker = engine._workers[0]
        os.kill(worker.process.pid, signal.SIGSTOP)
    assert worker.process.returncode == -signal.SIGKILL
