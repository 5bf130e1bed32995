"""Folders of images, and archives of such folders."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import eqrm
from eqrm.errors import DataFileError, SettingError

COLOURS = {"photo": 40, "sketch": 200}
CLASSES = ["dog", "guitar", "house"]


def jpeg(red: int, green: int) -> bytes:
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = red, green
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    return file.getvalue()


def pictures() -> dict[str, bytes]:
    """Red says the domain, green the class."""
    return {
        f"{domain}/{name}/pic_{number}.jpg": jpeg(red, 100 * place)
        for domain, red in COLOURS.items()
        for place, name in enumerate(CLASSES)
        for number in range(3)
    }


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, files: dict[str, bytes], prefix: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(prefix + name, content)
    return path


def read(source: Path, **settings: Any) -> eqrm.data.DomainData:
    return eqrm.dataset("image-folder", folder=str(source), **{"size": 12, **settings})


@pytest.mark.parametrize("kind", ["folder", "archive", "archive in a folder"])
@pytest.mark.parametrize("resident", ["always", "never", "auto"])
def test_images_are_read_with_their_domain_and_class(
    tmp_path: Path, kind: str, resident: str
) -> None:
    junk = {".DS_Store": b"x", "photo/dog/Thumbs.db": b"x", "photo/readme.txt": b"x"}
    files = {**pictures(), **junk}
    if kind == "folder":
        source = write_folder(tmp_path / "PACS", files)
    else:
        source = write_archive(tmp_path / "p.zip", files, "kfold/" if "in a" in kind else "")
    data = read(source, resident=resident)
    assert data.names == ("photo", "sketch")
    assert data.target_names == tuple(CLASSES)
    assert data.counts.tolist() == [9, 9]
    found = data.rows(torch.arange(18))
    assert found.x.shape == (18, 3, 12, 12)
    colours = found.x.float().mean((2, 3))
    reds = torch.tensor(list(COLOURS.values()))[found.domains]
    torch.testing.assert_close(colours[:, 0], reds.float(), atol=3.0, rtol=0.0)
    torch.testing.assert_close(colours[:, 1], 100.0 * found.y, atol=3.0, rtol=0.0)


def test_chosen_domains_keep_the_numbers_of_the_classes(tmp_path: Path) -> None:
    files = {name: content for name, content in pictures().items() if "sketch/dog" not in name}
    data = read(write_folder(tmp_path / "p", files), domains=["sketch"])
    assert data.names == ("sketch",)
    assert data.target_names == tuple(CLASSES)
    assert set(data.y.tolist()) == {1, 2}
    with pytest.raises(SettingError, match="Did you mean 'sketch'"):
        read(tmp_path / "p", domains=["sketsh"])


@pytest.mark.parametrize("content", [b"", b"no image", jpeg(1, 2)[:200], b"\x89PNG\r\n\x1a\n1234"])
def test_an_unreadable_image_is_named(tmp_path: Path, content: bytes) -> None:
    files = {**pictures(), "photo/dog/broken.jpg": content}
    with pytest.raises(DataFileError, match=r"photo/dog/broken\.jpg in .* cannot be read"):
        read(write_folder(tmp_path / "p", files))
    with pytest.raises(DataFileError, match=r"photo/dog/broken\.jpg in .* cannot be read"):
        read(write_archive(tmp_path / "p.zip", files))


def test_an_image_of_too_many_pixels_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with pytest.raises(DataFileError, match="exceeds limit"):
        read(write_folder(tmp_path / "p", pictures()))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"photo/dog/more/deep.jpg": b"x"}, "same depth, got photo/dog/more/deep"),
        ({"loose.jpg": b"x"}, "must be in folders domain/class/image"),
    ],
)
def test_another_layout_is_refused(tmp_path: Path, extra: dict[str, bytes], words: str) -> None:
    with pytest.raises(DataFileError, match=words):
        read(write_folder(tmp_path / "p", {**pictures(), **extra}))


def test_no_images_no_archive_and_no_folder_are_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFileError, match="contains no images"):
        read(tmp_path / "empty")
    archive = write_archive(tmp_path / "p.zip", pictures())
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(DataFileError, match="not a zip archive, or is truncated"):
        read(archive)
    with pytest.raises(DataFileError, match="does not exist"):
        read(tmp_path / "nothing")
    with pytest.raises(DataFileError, match="VLCS or vlcs is not in the data root"):
        eqrm.dataset("vlcs", tmp_path)
    with pytest.raises(SettingError, match="Unknown value of resident 'yes'"):
        read(write_folder(tmp_path / "q", pictures()), resident="yes")


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("PACS", "PACS"),
        ("OfficeHome", "office_home"),
    ],
)
def test_the_folders_of_domainbed_are_found_under_the_data_root(
    tmp_path: Path, name: str, folder: str
) -> None:
    write_folder(tmp_path / folder, pictures())
    assert eqrm.dataset(name, tmp_path, size=8).names == ("photo", "sketch")
