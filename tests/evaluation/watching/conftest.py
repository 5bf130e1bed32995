"""A watch that has seen nothing, and one that has judged twelve days."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluation.watching.watch_worlds import (
    days,
    started,
    watch,
    written,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A watch with a certificate, and one that has judged 12 days of one file."""
    folder = tmp_path_factory.mktemp("watch")
    started(folder)
    shutil.copy(folder / "w.state", folder / "fresh.state")
    assert watch(folder / "w.state", "--new", written(folder, days(60, 12), "a.csv")) == 0
    return folder


@pytest.fixture
def fresh(world: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(world / "fresh.state", tmp_path / "w.state"))


@pytest.fixture
def going(world: Path, tmp_path: Path) -> Path:
    shutil.copy(world / "a.csv", tmp_path / "a.csv")
    return Path(shutil.copy(world / "w.state", tmp_path / "w.state"))
