"""What tests of the command line share: a command run in this process, and a table of patients."""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eqrm import cli

ROWS, HOSPITALS = 25, 70


def hospitals(seed: int = 0, number: int = HOSPITALS, first: int = 0) -> pd.DataFrame:
    """Patients: one measurement means the same everywhere, another differs by hospital."""
    rng = np.random.default_rng(seed)
    rows = number * ROWS
    hospital = np.repeat(np.arange(first, first + number), ROWS)
    age = rng.normal(60, 15, rows)
    ill = rng.random(rows) < 1 / (1 + np.exp(-(age - 60) / 15))
    scan = np.repeat(rng.normal(1, 0.8, number), ROWS) * (2 * ill - 1) + rng.normal(size=rows)
    return pd.DataFrame(
        {
            "hospital": [f"H{h:03d}" for h in hospital],
            "age": age.round(2),
            "scan": scan.round(3),
            "ward": rng.choice(["north", "south", "east"], rows),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def called(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``eqrm ARGUMENTS``."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["eqrm", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return int(stop.value.code or 0), out.getvalue(), err.getvalue()


def run(_: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """:func:`called`, for a test that has asked pytest to capture what is printed."""
    return called(*arguments)


def printed_by(*arguments: str) -> str:
    """Standard output of ``eqrm ARGUMENTS``, which succeeds without a warning."""
    code, printed, err = called(*arguments)
    assert (code, err) == (0, "")
    return printed


def refused(*arguments: str) -> str:
    """What ``eqrm ARGUMENTS`` refuses in one line, and nothing else is printed."""
    code, printed, err = called(*arguments)
    assert (code, printed) == (2, "")
    assert err.startswith("eqrm: ")
    assert err.count("\n") == 1
    return err


def refuse_in_one_line(folder: Path, options: list[str], words: str) -> None:
    """``eqrm train`` of the table in this folder says what is wrong, and leaves nothing behind."""
    out = folder / "out"
    table = str(folder / "t.csv")
    assert words in refused("train", table, *options, "--output", str(out))
    assert not out.exists()


def changed(frame: pd.DataFrame, column: str, rows: list[int], value: object) -> pd.DataFrame:
    """Another value in some rows of a column."""
    frame = frame.astype({column: object})
    frame.loc[rows, column] = value
    return frame
