"""JSON and YAML are read from regular files only: pipes would be waited for without end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eqrm
from eqrm.errors import DataFileError
from eqrm.evaluation.parts import EvaluatedPart
from eqrm.evaluation.watching.claim import WatchSettings, certificate_to_watch
from eqrm.files.checked_json import is_whole_json, read_checked_json, read_checked_lines
from eqrm.files.yaml_text import read_yaml
from eqrm.tabular.comparing.sources import ComparedSource, models_of_sources
from eqrm.tabular.output_folder import LISTED, listed_files
from eqrm.tabular.recalibrating.correction_files import SavedCorrection


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda path: read_checked_json(path, "a 1", "a file"), id="content"),
        pytest.param(lambda path: read_checked_lines(path, "a 1", "a file"), id="lines"),
        pytest.param(lambda path: models_of_sources([ComparedSource(path)]), id="compare"),
        pytest.param(lambda path: certificate_to_watch(path, WatchSettings()), id="watch"),
        pytest.param(EvaluatedPart.read, id="merge"),
        pytest.param(SavedCorrection.read, id="correction"),
        pytest.param(eqrm.load, id="load"),
        pytest.param(read_yaml, id="yaml"),
    ],
)
def test_pipes_and_devices_are_not_opened(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("/dev/zero")
    with pytest.raises(DataFileError, match=r"pipe\.json is not a regular file but a pipe\. Save"):
        read(tmp_path / "pipe.json")
    with pytest.raises(DataFileError, match=r"link\.json is not a regular file but a device"):
        read(tmp_path / "link.json")


def test_folders_and_missing_files_are_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot be read: Is a directory"):
        read_checked_json(tmp_path, "a 1", "a file")
    with pytest.raises(DataFileError, match="does not exist"):
        read_checked_json(tmp_path / "none.json", "a 1", "a file")
    with pytest.raises(DataFileError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)


def test_a_pipe_is_neither_a_whole_file_nor_the_list_of_a_training(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LISTED)
    assert not is_whole_json(tmp_path / LISTED, "a 1", "{")
    assert listed_files(tmp_path) is None
