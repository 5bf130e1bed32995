"""Evaluations, files of new days and commands for tests of the watch."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

import eqrm
from eqrm import Watch, cli
from eqrm.evaluation.watching.state_file import FORMAT
from eqrm.files.checked_json import read_checked_lines

CERTIFIED, ROWS = 60, 4
GOOD, BAD = 0.0, 0.6
COLUMNS = ["--domain", "day", "--loss", "loss"]
FIRST = date(2020, 1, 1)
COMMANDS = typer.main.get_command(cli.app)
"""Made once, which is most of the work of calling one."""


def days(first: int, number: int, shift: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Losses of some days, counted from the first certified one; ``shift`` makes them worse."""
    rng = np.random.default_rng([seed, first])
    names = [str(FIRST + timedelta(days=first + i)) for i in range(number)]
    level = np.repeat(rng.normal(0.5, 0.1, number) + shift, ROWS)
    losses = np.abs(level + rng.normal(0, 0.02, number * ROWS))
    return pd.DataFrame({"day": np.repeat(names, ROWS), "loss": losses.round(6)})


def evaluation(folder: Path, frame: pd.DataFrame | None = None, name: str = "ev.json") -> str:
    """The file of an evaluation on the certified days."""
    frame = days(0, CERTIFIED) if frame is None else frame
    found = eqrm.evaluate(frame, domains="day", losses={"model": "loss"})
    (folder / name).write_text(found.to_json())
    return str(folder / name)


def written(folder: Path, frame: pd.DataFrame, name: str) -> str:
    """The path of a CSV file with these rows."""
    frame.to_csv(folder / name, index=False)
    return str(folder / name)


def watch(state: Path, *arguments: str) -> int:
    """The exit code of ``eqrm watch STATE ARGUMENTS``, run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "app", COMMANDS)
        patch.setattr(sys, "argv", ["eqrm", "watch", str(state), *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return int(stop.value.code or 0)


def started(folder: Path, *options: str) -> Path:
    """A watch that has seen nothing yet."""
    state = folder / "w.state"
    assert watch(state, "--start", evaluation(folder), *COLUMNS, *options) == 0
    return state


def forked(job: Callable[[], Any]) -> int:
    """The process id of a child that does a job without printing anything, and ends."""
    child = os.fork()
    if child == 0:
        try:
            with open(os.devnull, "w") as nothing:
                sys.stdout = sys.stderr = nothing
                job()
        finally:
            os._exit(0)
    return child


def killed_at(job: Callable[[], Any], moment: int, names: list[tuple[Any, str]]) -> bool:
    """Do a job in a process that kills itself at one of its calls of these functions.

    Returns whether it came to that call; otherwise the job was done before.
    """
    calls = 0

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return function

    def armed() -> None:
        for owner, name in names:
            setattr(owner, name, deadly(getattr(owner, name)))
        job()

    return os.WIFSIGNALED(os.waitpid(forked(armed), 0)[1])


def killed_after(job: Callable[[], Any], seconds: float) -> bool:
    """Do a job in a process that is killed after some time; returns whether that ended it."""
    child = forked(job)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def judged_directly(claim: Any, risks: list[float]) -> list[float]:
    """The evidence after each domain, by the watch of Python."""
    made = Watch(claim.certificate, claim.settings.delta, reference=claim.risks)
    return [made.update(risk) for risk in risks]


def lines(state: Path) -> list[dict[str, Any]]:
    return read_checked_lines(state, FORMAT, "a watch")


def domains(state: Path) -> list[dict[str, Any]]:
    return [entry for entry in lines(state) if "domain" in entry]


def undisturbed(folder: Path, files: list[str]) -> bytes:
    other = folder / "other"
    other.mkdir()
    state = started(other)
    for file in files:
        watch(state, "--new", file)
    return state.read_bytes()
