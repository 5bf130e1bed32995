"""A table is followed through the functions that it passes; ARCHITECTURE.md lists them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"
MOST = 12


def of_eqrm(frame: Any) -> bool:
    """Whether a frame is of a function of eqrm: comprehensions are none."""
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("eqrm.") and frame.f_code.co_name[:1] != "<"


def called_by(frame: Any) -> tuple[str, str]:
    """A function of eqrm, and the one that called it."""
    names: list[str] = []
    while frame is not None and len(names) < 2:
        if of_eqrm(frame):
            module = frame.f_globals["__name__"].rpartition(".")[2]
            names.append(f"{module}.{frame.f_code.co_name}")
        frame = frame.f_back
    return names[0], names[1] if len(names) > 1 else ""


def check_trip(stations: Sequence[str], work: Callable[[], object]) -> None:
    """The stations are called in this order, and by nothing else than each other."""
    calls: list[tuple[str, str]] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and of_eqrm(frame):
            calls.append(called_by(frame))

    work()  # everything is imported
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    assert len(stations) <= MOST
    place = -1
    for station in stations:
        callers = dict(calls[place + 1 :][::-1])  # the first call of each function
        assert callers.get(station) in (*stations, ""), station
        place = [called for called, _ in calls].index(station, place + 1)


def listed_trip(into: str) -> list[str]:
    """The list of ARCHITECTURE.md of what a table passes on its way into a function."""
    part = PAGE.read_text(encoding="utf-8").split("## The trips")[1].split("\n## ")[0]
    of_function = part.split(f"into `{into}`", 1)[1].split("\n\n", 2)[1]
    return re.findall(r"^\d+\. `([\w.]+)`", of_function, re.MULTILINE)
