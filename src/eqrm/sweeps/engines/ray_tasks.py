"""Runs as tasks of a Ray cluster, one per run.

The folder of the sweep must be on a file system that all nodes share. A task whose node was lost
is not repeated by Ray but by the sweep, and the run goes on from its checkpoint.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eqrm.checks import NON_NEGATIVE, Rule, check_fields, ruled
from eqrm.errors import SettingError, naming_extra
from eqrm.sweeps.engines.base import Engine, RunOutcome
from eqrm.sweeps.execution import logged_run
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.text import shortened

ANSWER = 10.0
"""Seconds that a cluster has to answer at its address."""
PATIENCE = 60.0
"""Seconds that tasks have to save and end before their processes are killed."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
SIZE = Rule(
    "a size such as 8G",
    lambda v: v is None or (isinstance(v, str) and _SIZE.fullmatch(v) is not None),
)


@dataclass(eq=False, kw_only=True)
class RayEngine(Engine):
    """Tasks with so many ``threads`` (CPUs), ``gpus`` (fractions too) and ``memory`` each.

    ``address`` is that of the cluster; ``auto`` finds the one that this machine belongs to, or that
    RAY_ADDRESS names. ``workers`` is how many tasks are submitted at once: as many as fit on the
    nodes unless given.
    """

    address: str = "auto"
    gpus: float = ruled(0.0, NON_NEGATIVE)
    memory: str | None = ruled(None, SIZE)

    def __post_init__(self) -> None:
        check_fields(self)
        self._needs = {"CPU": self.threads, "GPU": self.gpus, "memory": _bytes(self.memory)}
        with naming_extra("ray", "ray", "The engine 'ray'"):
            import ray
        self._ray: Any = ray
        self._tasks: dict[Any, str] = {}

    def __enter__(self) -> RayEngine:
        self._connected = not self._ray.is_initialized()
        if self._connected:
            try:
                _reach(str(self.address))
                self._ray.init(
                    address=str(self.address), log_to_driver=False, logging_level="error"
                )
            except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
                raise SettingError(
                    f"No Ray cluster was found at {str(self.address)!r}: "
                    f"{shortened(str(error), 200)} Start one (ray start --head), or name its "
                    "address in the settings of the engine (address=HOST:6379)."
                ) from None
        self._task = self._ray.remote(_train).options(
            num_cpus=self.threads,
            num_gpus=self._needs["GPU"],
            memory=self._needs["memory"],
            max_retries=0,
        )
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self._connected:
            self._ray.shutdown()

    @property
    def free(self) -> int:
        """How many more tasks fit on the nodes that are alive now; one at least is always asked."""
        return (self.workers or max(1, self._places())) - len(self._tasks)

    @property
    def running(self) -> list[str]:
        return list(self._tasks.values())

    def submit(self, run: str) -> None:
        root = None if self.data_root is None else str(Path(self.data_root).resolve())
        folder = str(Path(self.folder).resolve())
        self._tasks[self._task.remote(folder, run, root, self.threads)] = run

    def poll(self, seconds: float) -> list[RunOutcome]:
        """What tasks answered; a task that Ray lost has no answer."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        ended, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._outcome(task, self._tasks.pop(task)) for task in ended]

    def _outcome(self, task: Any, run: str) -> RunOutcome:
        try:
            return RunOutcome(**self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            words = shortened(lines[0], 200) if lines else type(error).__name__
            return RunOutcome(run, "lost", f"Ray lost the task: {words}")

    def cancel(self) -> None:
        """Interrupt tasks, which save and end; a second Ctrl-C, or a minute, kills them."""
        if not self._tasks:
            return
        try:
            for task in self._tasks:
                self._ray.cancel(task)
            self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=PATIENCE)
        except KeyboardInterrupt:
            for task in self._tasks:
                self._ray.cancel(task, force=True)
        self._tasks.clear()

    def _places(self) -> int:
        needs = {name: need for name, need in self._needs.items() if need}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return sum(
            min(int(node.get(name, 0) / need + 1e-9) for name, need in needs.items())
            for node in nodes
        )


def _train(folder: str, run: str, data_root: str | None, threads: int) -> dict[str, str]:
    """What a task does; on a node, in a process that Ray keeps for the next."""
    return asdict(logged_run(SweepFolder(folder), run, data_root, threads))


def _reach(address: str) -> None:
    """Raise a ``ConnectionError`` where nothing listens: Ray itself would ask for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), ANSWER).close()
        except OSError as error:
            raise ConnectionError(f"{error.strerror or error}.") from None


def _bytes(size: str | None) -> int | None:
    """A size in bytes.

    >>> _bytes("1.5G"), _bytes("200MB"), _bytes(None)
    (1610612736, 209715200, None)
    """
    found = None if size is None else _SIZE.fullmatch(size)
    if found is None:
        return None
    power = " KMGT".index(found[2].upper() or " ")
    return int(float(found[1]) * 1024**power)
