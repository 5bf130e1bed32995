"""The SLURM engine on a real cluster: two nodes on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.engines.same_records import Undisturbed, started, two_at_once
from sweeps.killing import ends_well, environment

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = REPOSITORY / "scripts" / "slurm_on_one_machine.sh"
PATHS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "runuser")
ABSENT = [name for name in NEEDED if shutil.which(name, path=PATHS) is None]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("clusters"),
    pytest.mark.skipif(
        bool(ABSENT) or os.geteuid() != 0,
        reason=f"SLURM is not installed ({', '.join(ABSENT)}): sh scripts/install_slurm.sh"
        if ABSENT
        else "starting slurmd needs root",
    ),
]


class Cluster:
    """The running cluster; commands that talk to it."""

    def __init__(self, conf: str) -> None:
        self.conf = conf

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=environment(SLURM_CONF=self.conf), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sweep(self, folder: Path, *options: str) -> subprocess.Popen[str]:
        common = ["--engine", "slurm", "--engine-set", "poll_every=0.5"]
        return started(folder, *common, *options, SLURM_CONF=self.conf)

    def tasks(self, *states: str) -> dict[str, str]:
        """Tasks in a state, with the node of each."""
        given = [f"--states={','.join(states)}"] if states else []
        out = self.run("squeue", "--noheader", "--array", "--format=%F_%K %N", *given)
        lines = [line.split() for line in out.splitlines()]
        return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = str(tmp_path_factory.mktemp("slurm"))
    done = subprocess.run(["sh", str(SCRIPT), "start", folder], capture_output=True, text=True)
    try:
        assert done.returncode == 0, done.stderr
        yield Cluster(done.stdout.strip().removeprefix("export SLURM_CONF="))
    finally:
        subprocess.run(["sh", str(SCRIPT), "stop", folder], check=False)


def test_slurm_gives_the_records_and_the_table_of_the_local_engine(
    slurm: Cluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = slurm.sweep(folder)
    two_at_once(folder)
    assert sorted(slurm.tasks("RUNNING").values()) == ["n1", "n2"]
    assert "2 running, 2 waiting" in ends_well(process)
    assert undisturbed.equals(folder)


def test_a_cancelled_and_a_requeued_job_change_nothing(
    slurm: Cluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = slurm.sweep(folder)
    two_at_once(folder)
    cancelled, requeued = sorted(slurm.tasks("RUNNING"))
    slurm.run("scontrol", "requeue", requeued)
    slurm.run("scancel", cancelled)
    ends_well(process)
    assert undisturbed.equals(folder)
    log = (folder / "slurm" / f"{requeued}.log").read_text()
    assert log.index("DUE TO JOB REQUEUE") < log.index("stopped after saving its state")
    assert log.endswith(": finished.\n")


def test_jobs_outlive_a_killed_sweep_and_the_next_one_watches_them(
    slurm: Cluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = slurm.sweep(folder)
    two_at_once(folder)
    process.kill()
    process.communicate()
    before = slurm.tasks()
    assert len(before) == 4
    ends_well(slurm.sweep(folder))
    assert undisturbed.equals(folder)
    assert [path.name for path in (folder / "slurm").glob("*.json")] == [
        f"{next(iter(before)).split('_')[0]}.json"
    ]


def test_ctrl_c_has_every_job_save_and_leaves_none_in_the_queue(
    slurm: Cluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = slurm.sweep(folder)
    running = two_at_once(folder)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert slurm.tasks() == {}
    assert all((folder / "runs" / run / "stopped").is_file() for run in running)
    ends_well(slurm.sweep(folder))
    assert undisturbed.equals(folder)


def test_a_setting_that_the_cluster_refuses_ends_the_sweep_with_its_words(
    slurm: Cluster, tmp_path: Path
) -> None:
    process = slurm.sweep(tmp_path / "sweep", "--engine-set", "partition=gpu")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "sbatch refused the jobs of the sweep" in err
    assert "invalid partition" in err.lower()


def test_a_run_that_needs_several_processes_is_trained_by_torchrun_on_two_nodes(
    slurm: Cluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    ends_well(slurm.sweep(folder, "--engine-set", "nodes=2"), 600)
    from eqrm.sweeps import read_records

    alone = {record.run: record for record in read_records(undisturbed.folder)}
    found = list(read_records(folder))
    assert len(found) == len(alone) == 4
    for record in found:
        last, expected = record.checkpoints[-1], alone[record.run].checkpoints[-1]
        assert last.step == expected.step
        assert last.risks.keys() == expected.risks.keys()
