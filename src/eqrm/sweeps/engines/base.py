"""What a sweep asks of an engine: take a run, say which runs ended, stop.

An engine knows nothing of plans. It is given the hash of a run whose ``run.json`` is in the folder
of the sweep, has a process somewhere call :func:`eqrm.sweeps.execution.execute_run`, and says how
that ended. One more engine is one more class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from eqrm.sweeps.execution import RunOutcome


class Engine(ABC):
    """Trains runs; a context that leaves no process behind."""

    @property
    @abstractmethod
    def free(self) -> int:
        """How many runs can be submitted now."""

    @property
    @abstractmethod
    def running(self) -> Sequence[str]:
        """The runs that were submitted and have not ended."""

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

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *raised: object) -> None:
        self.cancel()
