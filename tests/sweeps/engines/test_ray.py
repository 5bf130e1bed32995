"""The Ray engine on a real cluster: two nodes on this machine."""

from __future__ import annotations

import importlib.util
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.engines.same_records import Undisturbed, ends_well, start, training, wait_until
from sweeps.killing import SOURCE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("clusters"),
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed: pip install 'eqrm[ray]'",
    ),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and a second node, with one CPU each."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # a node would not start in time
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        made.second = made.add_node(num_cpus=1)
        yield made
        made.shutdown()


def sweep(cluster: Any, folder: Path) -> Any:
    return start(folder, "--engine", "ray", "--engine-set", f"address={cluster.address}")


def test_ray_gives_the_records_and_the_table_of_the_local_engine(
    cluster: Any, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = sweep(cluster, folder)
    wait_until(lambda: len(training(folder)) == 2, "two runs at once")
    ends_well(process)
    assert undisturbed.equals(folder)


def test_a_node_that_is_killed_in_the_middle_changes_nothing(
    cluster: Any, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = sweep(cluster, folder)
    wait_until(lambda: len(training(folder)) == 2, "two runs at once")
    cluster.remove_node(cluster.second, allow_graceful=False)
    ends_well(process)
    assert undisturbed.equals(folder)


def test_ctrl_c_has_every_task_save_and_the_sweep_goes_on_later(
    cluster: Any, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    process = sweep(cluster, folder)
    wait_until(lambda: len(training(folder)) == 2, "two runs at once")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert training(folder) == []
    ends_well(sweep(cluster, folder))
    assert undisturbed.equals(folder)


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    process = start(tmp_path / "sweep", "--engine", "ray", "--engine-set", "address=127.0.0.1:9")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    assert "No Ray cluster was found at '127.0.0.1:9'" in err
