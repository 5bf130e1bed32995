"""Files appear whole or not at all, and in the place of nothing else."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from eqrm.errors import SettingError
from eqrm.files import writing
from eqrm.files.writing import whole_file, whole_files


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


def test_a_folder_is_replaced_when_all_of_its_new_files_are_whole(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with whole_files(folder) as draft:
        (draft / "models").mkdir()
        (draft / "models" / "a.txt").write_text("old")
        assert not folder.exists()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(OSError, match="No space left") as caught:
        _fill_the_disk(folder)
    assert caught.value.filename == str(folder / "b.txt")
    assert sorted(path.name for path in folder.rglob("*")) == ["a.txt", "mine.txt", "models"]
    with whole_files(folder) as draft:
        (draft / "models").mkdir()
        (draft / "models" / "a.txt").write_text("new")
        assert (folder / "models" / "a.txt").read_text() == "old"
    assert (folder / "models" / "a.txt").read_text() == "new"
    assert (folder / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir()) == ["mine.txt", "models"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_keeps_what_others_have_in_it(
    tmp_path: Path, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    with whole_files(folder) as draft:
        for name in ("a.txt", "b.txt"):
            (draft / name).write_text("old")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("nowhere")
    (folder / "mine").mkdir(mode=0o700)
    (folder / "mine" / "own.txt").write_text("mine")
    if at_once:  # as if the process were killed at the first file that takes its place alone
        if sys.platform != "linux":
            pytest.skip("only Linux exchanges folders")
        monkeypatch.setattr(os, "replace", None)
    else:
        monkeypatch.setattr(writing, "_exchanged", lambda *_: False)
    with whole_files(folder, without=["a.txt", "b.txt", "../outside.txt"]) as draft:
        (draft / "a.txt").write_text("new")
        (tmp_path / "outside.txt").write_text("mine")
    monkeypatch.undo()
    assert (folder / "a.txt").read_text() == "new"
    assert (folder / "mine" / "own.txt").read_text() == "mine"
    assert (tmp_path / "outside.txt").read_text() == "mine"
    assert (folder / "mine").stat().st_mode & 0o777 == 0o700
    assert (folder / "link").is_symlink()
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "empty", "link", "mine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "outside.txt"]


def test_a_folder_that_one_works_in_stays_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with whole_files(Path()) as draft:
        (draft / "a.txt").write_text("new")
    assert os.listdir() == ["a.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def _fill_the_disk(folder: Path) -> None:
    with whole_files(folder) as draft:
        (draft / "b.txt").write_text("new")
        raise OSError(errno.ENOSPC, "No space left on device", str(draft / "b.txt"))
