"""Files appear whole or not at all, and in the place of nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eqrm.errors import SettingError
from eqrm.files.writing import whole_file


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "link.md").symlink_to(tmp_path / "target.md")
    with whole_file(tmp_path / "link.md") as draft:
        draft.write_text("new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "target.md").read_text() == "new"


def test_what_is_no_plain_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingError, match="not a regular file"), whole_file(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
