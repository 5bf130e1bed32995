"""``eqrm data``: list, info, get."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from cli.commands import called
from eqrm.data.datasets.registry import (
    BUILT_IN,
    DATASETS,
    Published,
    Source,
    catalogue,
    dataset_settings,
)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> object:
    """Runs ``eqrm data ARGUMENTS``; its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("EQRM_DATA", raising=False)
    return partial(called, "data")


def test_the_list_says_what_is_there(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "PACS" / "photo").mkdir(parents=True)
    (tmp_path / "VLCS").mkdir()  # empty
    code, out, _ = command("list", "--data-root", str(tmp_path))
    assert code == 0
    rows = {line.split("│")[1].strip(): line for line in out.splitlines() if "│" in line}
    assert rows["pacs"].rstrip(" │").endswith("yes")
    assert rows["hiv"].rstrip(" │").endswith("no")
    assert rows["vlcs"].rstrip(" │").endswith("no")
    assert {"colored-mnist", "iwildcam", "ogb-molpcba", "molecules", "image-folder"} <= set(rows)


def test_info_gives_licence_checksums_and_settings(command) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = command("info", "ColoredMNIST")
    assert code == 0
    assert "licence   CC BY-SA 3.0" in out
    assert "6bbc9ace898e44ae57da46a324031adb" in out
    assert "flips = (0.1, 0.2)" in out
    assert "By hand, in the data root: Put the four idx files" in out


def test_an_unknown_name_is_one_line_and_exit_code_2(command) -> None:  # type: ignore[no-untyped-def]
    code, _, err = command("info", "mnits")
    assert code == 2
    assert err == err.splitlines()[0] + "\n"
    assert "Did you mean 'mnist'" in err


def test_get_fetches_and_says_where(  # type: ignore[no-untyped-def]
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from data.local_server import local_server

    with local_server() as server:
        server.files["/t.csv"] = b"smiles,toxic\nCCO,1\n"
        source = Source((f"{server.address}/t.csv",), "molecules/t.csv")
        entry = Published("T", "1", "MIT", "http://x", ("molecules/t.csv",), "By hand.", (source,))
        monkeypatch.setitem(catalogue(), "tox21", entry)
        code, out, _ = command("get", "tox21", "--data-root", str(tmp_path))
        assert code == 0
        assert f"{tmp_path}/molecules/t.csv\ntox21 is now in the data root {tmp_path}" in out
        assert "was already in" in command("get", "tox21", "--data-root", str(tmp_path))[1]
        (tmp_path / "molecules" / "t.csv").unlink()
        server.files.clear()
        code, _, err = command("get", "tox21", "--data-root", str(tmp_path))
        assert code == 2
        assert f"{server.address}/t.csv → molecules/t.csv" in err


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_info_knows_every_dataset_of_the_list(command, name: str) -> None:  # type: ignore[no-untyped-def]
    code, out, err = command("info", name)
    assert code == 0, err
    assert f"eqrm.dataset('{name}'): " in out
    for setting in dataset_settings(name):
        assert f"\n  {setting} " in out


def test_what_is_not_fetched_says_so(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = command("info", "Image_Folder")
    assert out.startswith("image-folder: no download needed. It reads your own files.\n")
    assert "folder (required)" in out
    for name in BUILT_IN:
        assert "no download needed. It ships with eqrm." in command("info", name)[1]
    code, _, err = command("get", "table", "--data-root", str(tmp_path))
    assert code == 2
    assert "'table' does not need to be fetched" in err
