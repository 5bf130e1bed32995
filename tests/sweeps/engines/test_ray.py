"""The Ray engine on a real cluster: two nodes on this machine."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.engines.same_records import Undisturbed, started, training, two_at_once
from sweeps.killing import ends_well, environment

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("clusters"),
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed: pip install 'eqrm[ray]'",
    ),
]


SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "ray_on_one_machine.py"


class Cluster:
    """A head and a second node, in processes of their own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.answer("address=").removeprefix("address=")

    def answer(self, beginning: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line.strip()
        raise AssertionError("the cluster ended")

    def kill_second_node(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("kill\n")
        self.process.stdin.flush()
        self.answer("killed")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.process.communicate(timeout=120)


def sweep(cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    return started(folder, "--engine", "ray", "--engine-set", f"address={cluster.address}")


@pytest.mark.parametrize("killed", [False, True])
def test_with_and_without_a_killed_node_ray_gives_the_records_and_table_of_the_local_engine(
    cluster: Cluster, undisturbed: Undisturbed, tmp_path: Path, killed: bool
) -> None:
    folder = tmp_path / "sweep"
    process = sweep(cluster, folder)
    two_at_once(folder)
    if killed:
        cluster.kill_second_node()
    ends_well(process)
    assert undisturbed.equals(folder)


def test_ctrl_c_has_every_task_save_and_the_sweep_goes_on_later(
    cluster: Cluster, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = sweep(cluster, folder)
    two_at_once(folder)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert training(folder) == []
    ends_well(sweep(cluster, folder))
    assert undisturbed.equals(folder)


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    process = started(tmp_path / "sweep", "--engine", "ray", "--engine-set", "address=127.0.0.1:9")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    assert "No Ray cluster was found at '127.0.0.1:9'" in err
