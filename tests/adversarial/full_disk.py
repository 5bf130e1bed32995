"""Commands over the outputs of an earlier one, with a limit on what a file may hold.

The limit of the operating system (RLIMIT_FSIZE) fails a write wherever it comes from, Python or C,
after any number of bytes, as a full disk does.
"""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from cli.commands import called

SITES, ROWS = 30, 12
COLUMNS = ["--domain", "site", "--target", "y", "--prediction", "p"]


def rows(seed: int) -> pd.DataFrame:
    """Labels and predictions at some sites, in the order of days."""
    rng = np.random.default_rng(seed)
    number = SITES * ROWS
    y = rng.integers(0, 2, number)
    p = np.clip(0.5 + (y - 0.5) * rng.uniform(-0.3, 0.9, number), 0.02, 0.98).round(3)
    x = (y + rng.normal(size=number)).round(3)
    days = pd.date_range("2020-01-01", periods=SITES).strftime("%Y-%m-%d")
    site = np.repeat(days if not seed else days.str.replace("2020", "2021"), ROWS)
    return pd.DataFrame({"site": site, "x": x, "y": y, "p": p})


class Disk:
    """A folder with a table and what an earlier command has written there; refilled at will."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.kept = folder / "before"
        self.folder.mkdir()
        rows(0).to_csv(self.folder / "rows.csv", index=False)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard error of a command."""
        code, _, err = called(*arguments)
        return code, err

    def prepare(self, *commands: list[str]) -> None:
        """Run commands that succeed, then change the table, and keep all that is there."""
        for command in commands:
            code, err = self.run(*command)
            assert code in (0, 3), err
        rows(1).to_csv(self.folder / "rows.csv", index=False)
        shutil.copytree(self.folder, self.kept)

    def refill(self) -> None:
        """Put everything back."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)


def commands(name: str, disk: Disk) -> tuple[list[list[str]], list[str]]:
    """What is run before, and the command that meets a full disk."""
    table = disk.path("rows.csv")
    if name in ("evaluate", "figures"):
        command = ["evaluate", table, *COLUMNS, "--output", disk.path("table.md")]
        command += ["--report", disk.path("page.html")]
        command += ["--figures", disk.path("figures")] if name == "figures" else []
        return [command], command
    if name == "recalibrate":
        command = ["recalibrate", table, *COLUMNS, "--alpha", "0.5", "--save", disk.path("c.json")]
        command += ["--output", disk.path("new.csv")]
        return [command], command
    if name == "watch":
        evaluated = ["evaluate", table, *COLUMNS, "--format", "json", "--output"]
        start = ["watch", disk.path("w.state"), "--start", disk.path("e.json"), "--alpha", "0.5"]
        start += [*COLUMNS, "--confidence", "0.5"]
        command = ["watch", disk.path("w.state"), "--new", table]
        return [[*evaluated, disk.path("e.json")], start], command
    train = ["train", table, "--domain", "site", "--target", "y", "--drop", "p", "--alpha", "0.5"]
    train += ["--model", "linear", "--surrogate", "none", "--output", disk.path("out")]
    if name == "train":
        return [train], train
    predict = ["predict", disk.path("out"), table, "--output", disk.path("predicted.csv")]
    return [train, predict], predict


COMMANDS = ("evaluate", "figures", "watch", "recalibrate", "train", "predict")


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Writes fail where a file would grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files, by their path; the header of a model file lists its entries in any order."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): _content(path) for path in files}


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".safetensors":
        return content
    end = 8 + int.from_bytes(content[:8], "little")
    return json.dumps(json.loads(content[8:end]), sort_keys=True).encode() + content[end:]


def judge(disk: Disk, code: int, err: str, expected: dict[str, bytes]) -> None:
    """After a command that met a full disk: all old files, or all new ones; one line that says so.

    A watch writes its state first, and its page, which can be written again, afterwards.
    """
    before, found = snapshot(disk.kept), snapshot(disk.folder)
    if code in (0, 3):
        assert found == expected
        return
    assert code == 2, err
    assert err.startswith("eqrm: "), err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1, err
    found = {name: content for name, content in found.items() if not name.startswith("w.state")}
    assert found == {name: before[name] for name in before if not name.startswith("w.state")}
