"""Coverage where it counts: Python that is measured takes about twice as long, whatever it is.

Up to Python 3.13 coverage listens to every line of every package. Only eqrm is of interest: nothing
is measured while tests are collected and while other packages are imported, except for the modules
of eqrm that are imported meanwhile.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

_execute = SourceFileLoader.exec_module


def tracer_of_coverage() -> Any:
    """What coverage listens with, None where it cannot be stopped and started again."""
    tracer = sys.gettrace()
    return tracer if hasattr(tracer, "start") and hasattr(tracer, "stop") else None


@contextmanager
def listening(tracer: Any, wanted: bool) -> Iterator[None]:
    """With this tracer, or without; then as before."""
    before = sys.gettrace() is tracer
    if before != wanted:
        (tracer.start if wanted else tracer.stop)()
    try:
        yield
    finally:
        if before != wanted:
            (tracer.start if before else tracer.stop)()


def measure_imports_of(package: str, tracer: Any) -> None:
    """From now on the modules of this package are measured as they are imported, and no others."""
    thread = threading.get_ident()

    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        if threading.get_ident() != thread:  # each thread has a tracer of its own
            _execute(self, module)
            return
        with listening(tracer, module.__name__.partition(".")[0] == package):
            _execute(self, module)

    SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign]
