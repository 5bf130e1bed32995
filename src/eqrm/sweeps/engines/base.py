"""What a sweep asks of an engine: take a run, say which runs ended, stop.

An engine knows nothing of plans. It is given the hash of a run whose ``run.json`` is in the folder
of the sweep, has a process somewhere call :func:`eqrm.sweeps.execution.execute_run`, and says how
that ended. One more engine is a class and a row of ``ENGINES``. The parameters of the class
are what users can set; all engines have ``workers`` (how many runs are trained at once) and
``threads`` (those of each run).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal

from eqrm.checks import POSITIVE_INTEGER, optional, ruled
from eqrm.registry import Registry

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables with the number of threads of a run."""
Ending = Literal["finished", "failed", "stopped", "elsewhere", "lost"]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: finished, failed with an error, stopped to be resumed, and so on.

    Elsewhere: another process trains it now. Lost: its process died.
    """

    run: str
    ending: Ending
    error: str = ""


@dataclass(eq=False)
class Engine(ABC):
    """Trains runs; a context that leaves no process behind."""

    folder: Path
    data_root: str | Path | None = None
    _: KW_ONLY
    threads: int = ruled(1, POSITIVE_INTEGER)
    workers: int | None = ruled(None, optional(POSITIVE_INTEGER))

    @property
    @abstractmethod
    def free(self) -> int:
        """How many runs can be submitted now."""

    @property
    @abstractmethod
    def running(self) -> Sequence[str]:
        """The runs that were submitted and have not ended."""

    @property
    def queued(self) -> int:
        """How many of them wait for a machine."""
        return 0

    @abstractmethod
    def submit(self, run: str) -> None:
        """Have a run trained."""

    @abstractmethod
    def poll(self, seconds: float) -> list[RunOutcome]:
        """The runs that ended since the last call, waiting up to so many seconds for the first.

        A run whose process died is ``"lost"``.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Have every run save its state and stop, and wait until they have."""

    @contextmanager
    def warming_up(self) -> Iterator[None]:
        """Get ready for runs while their plan is checked; what fails inside leaves no process."""
        yield

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *raised: object) -> None:
        self.cancel()


ENGINES: Registry[type[Engine]] = Registry(
    "engine",
    {
        "local": "eqrm.sweeps.engines.local:LocalEngine",
        "slurm": "eqrm.sweeps.engines.slurm:SlurmEngine",
        "ray": "eqrm.sweeps.engines.ray_tasks:RayEngine",
    },
)


def make_engine(
    name: str, folder: Path, data_root: str | Path | None, settings: Mapping[str, Any]
) -> Engine:
    """The engine of a name for the sweep in a folder."""
    hidden = ("folder", "data_root")
    made: Engine = ENGINES.make(name, folder, data_root, given=settings, leave_out=hidden)
    return made
