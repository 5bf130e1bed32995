"""iWildCam and OGB-MolPCBA, read from small data in the official layout."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import eqrm
from data.wilds_layout import (
    CAMERAS,
    MOLECULES,
    SPECIES,
    write_iwildcam,
    write_ogb_molpcba,
)
from eqrm.data.datasets.chemistry import graphs_of, parsed
from eqrm.errors import DataFileError, DomainDataError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("split", list(CAMERAS))
@pytest.mark.parametrize("resident", ["always", "never"])
def test_each_split_of_iwildcam_has_its_cameras_and_images(
    tmp_path: Path, split: str, resident: str
) -> None:
    write_iwildcam(tmp_path)
    data = eqrm.dataset("iwildcam", tmp_path, split=split, size=16, resident=resident)
    assert data.names == tuple(str(camera) for camera in CAMERAS[split])
    assert data.counts.tolist() == [3] * len(CAMERAS[split])
    assert data.target_names == tuple(SPECIES)
    found = data.rows(torch.arange(len(data)))
    assert found.x.shape == (len(data), 3, 16, 16)
    assert found.x.dtype == torch.uint8
    cameras = torch.tensor([int(data.names[i]) for i in found.domains.tolist()])
    colours = found.x.float().mean((2, 3))
    assert torch.equal((colours[:, 0] / 20).round().long(), cameras)
    assert torch.equal((colours[:, 1] / 60).round().long(), found.y)


def test_the_official_splits_of_iwildcam_are_parts_to_keep_apart(tmp_path: Path) -> None:
    folder = write_iwildcam(tmp_path)
    whole = eqrm.dataset("iwildcam", tmp_path, size=8)
    assert whole.num_domains == 9
    splits = whole.splits(test=["test"], validation=["val"])
    for part, name in zip(splits, ("train", "val", "test"), strict=True):
        assert part is not None
        assert part.names == tuple(str(camera) for camera in CAMERAS[name])
    text = (folder / "metadata.csv").read_text().replace("test,7,", "test,0,", 1)
    assert text.count("test,7,") == 2
    (folder / "metadata.csv").write_text(text)
    with pytest.raises(DataFileError, match="trap '0' is in train and in test"):
        eqrm.dataset("iwildcam", tmp_path, size=8)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("split,", "part,", "no column 'split'"),
        ("train,", "trian,", "unknown split 'trian'"),
        ("test-006-0.jpg", "../../secret.jpg", "is outside of the folder"),
        ("test-006-0.jpg", "/etc/passwd", "is outside of the folder"),
        ("test-006-0.jpg", "missing.jpg", r"image missing\.jpg .* cannot be read"),
    ],
)
def test_wrong_metadata_are_refused_in_words(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    path = write_iwildcam(tmp_path) / "metadata.csv"
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises((DataFileError, DomainDataError), match=words):
        eqrm.dataset("iwildcam", tmp_path, split="test", size=8)


def test_metadata_that_lost_rows_are_refused(tmp_path: Path) -> None:
    path = write_iwildcam(tmp_path) / "metadata.csv"
    whole = path.read_text()
    path.write_text(whole[:-2])
    with pytest.raises(DataFileError, match="truncated in its last line"):
        eqrm.dataset("iwildcam", tmp_path, size=8)
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))
    with pytest.raises(DataFileError, match=r"no row has .*Rows are missing"):
        eqrm.dataset("iwildcam", tmp_path, size=8)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_each_split_of_molpcba_has_its_molecules_and_scaffolds(tmp_path: Path, split: str) -> None:
    write_ogb_molpcba(tmp_path)
    data = eqrm.dataset("ogb-molpcba", tmp_path, split=split)
    smiles = MOLECULES["valid" if split == "val" else split]
    rows = torch.arange(len(smiles))
    wanted = graphs_of([parsed(text) for text in smiles])[rows]
    found = data.rows(rows)
    for field in ("x", "edge_index", "edge_attr", "batch"):
        assert torch.equal(getattr(found.x, field), getattr(wanted, field)), field
    scaffolds = {"train": 3, "val": 1, "test": 2}
    assert data.num_domains == scaffolds[split]
    assert data.y.shape == (len(smiles), 128)
    assert data.target_names[5] == "PCBA-5"
    known = data.y[~data.y.isnan()]
    assert 0.3 < float(data.y.isnan().float().mean()) < 0.5
    assert set(known.tolist()) == {0.0, 1.0}


def test_the_official_splits_of_molpcba_are_parts_to_keep_apart(tmp_path: Path) -> None:
    folder = write_ogb_molpcba(tmp_path)
    whole = eqrm.dataset("ogb-molpcba", tmp_path)
    splits = whole.splits(test=["test"], validation=["val"])
    assert [part.num_domains for part in splits if part] == [3, 1, 2]
    assert [len(part) for part in splits if part] == [6, 2, 3]
    valid = folder / "split" / "scaffold" / "valid.csv.gz"
    valid.write_bytes((folder / "split" / "scaffold" / "train.csv.gz").read_bytes())
    with pytest.raises(DataFileError, match="is in train and in val"):
        eqrm.dataset("ogb-molpcba", tmp_path)


def test_a_pickle_in_the_place_of_an_array_is_not_run(tmp_path: Path) -> None:
    folder = write_ogb_molpcba(tmp_path)
    mark = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(mark),))

    np.save(folder / "raw" / "scaffold_group.npy", np.array([Trap()]), allow_pickle=True)
    with pytest.raises(DataFileError, match="not an array of numbers"):
        eqrm.dataset("ogb-molpcba", tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("place", "content", "words"),
    [
        ("raw/edge.csv.gz", None, "does not exist"),
        ("raw/scaffold_group.npy", None, "'eqrm data get ogb-molpcba' fetches it"),
        ("raw/node-feat.csv.gz", "cut", "truncated or damaged"),
        ("raw/edge-feat.csv.gz", "1,2\n", "must have 3 columns, got 2"),
        ("raw/node-feat.csv.gz", "500,0,0,0,0,0,0,0,0\n", "OGB's list does not have"),
        ("raw/num-node-list.csv.gz", "1\n2\n", "do not belong together"),
        ("raw/graph-label.csv.gz", "a,b\n", "not a table of numbers"),
        ("split/scaffold/train.csv.gz", "3\n99\n", "must list molecules from 0 to 10"),
    ],
)
def test_damaged_or_foreign_files_of_molpcba_are_refused(
    tmp_path: Path, place: str, content: str | None, words: str
) -> None:
    path = write_ogb_molpcba(tmp_path) / place
    if content is None:
        path.unlink()
    elif content == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises((DataFileError, DomainDataError), match=words):
        eqrm.dataset("ogb-molpcba", tmp_path)
