"""Ctrl-C, or a scheduler that stops the job: finish the step, save, and say how to continue."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from eqrm.training.processes import any_process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(KeyboardInterrupt):
    """Training was interrupted after a complete step; the message says how to continue."""


class TrainingGivenUp(Exception):  # noqa: N818 - not an error
    """Whoever started the training has decided, after an evaluation, that it is not worth it."""


class InterruptionWatch:
    """Remembers that the user pressed Ctrl-C (SIGINT) or a scheduler sent SIGTERM.

    A second Ctrl-C stops at once. Only the main thread can watch; elsewhere nothing is changed.

    >>> with InterruptionWatch() as watch:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     watch.asked()
    True
    """

    def __init__(self) -> None:
        self._raised = False
        self._before: dict[signal.Signals, Any] = {}

    def asked(self) -> bool:
        """Whether any process was asked to stop; every process must ask, at the same step."""
        return any_process(self._raised)

    def __enter__(self) -> InterruptionWatch:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._raised and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._raised = True
