"""Fetching: resumed, checked, unpacked safely, or said how to do it by hand."""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.local_server import Served, local_server
from eqrm.data.datasets.downloads import fetch, get_dataset, unpack
from eqrm.data.datasets.registry import Published, Source, catalogue
from eqrm.errors import DataFileError

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()


@pytest.fixture
def server() -> Iterator[Served]:
    with local_server() as served:
        yield served


def silent(there: int, total: int | None) -> None:
    """Report nothing."""


def source_of(server: Served, name: str = "/a.bin", **settings: object) -> Source:
    return replace(Source((f"{server.address}{name}",), "folder/a.bin"), **settings)


def leftovers(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_a_file_arrives_whole_with_its_checksum(server: Served, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    seen: list[tuple[int, int | None]] = []
    source = source_of(server, md5=hashlib.md5(CONTENT).hexdigest(), size=len(CONTENT))
    path = fetch(source, tmp_path, lambda *told: seen.append(told))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (300_000, 300_000)
    assert leftovers(tmp_path) == ["a.bin"]
    fetch(source, tmp_path, silent)
    assert len(server.asked) == 1  # what is there is not fetched again


def test_a_broken_download_goes_on_where_it_stopped(server: Served, tmp_path: Path) -> None:
    server.files["/a.bin"] = CONTENT
    server.break_after = 100_000
    source = source_of(server, md5=hashlib.md5(CONTENT).hexdigest())
    with pytest.raises(
        DataFileError, match=r"broke after 100,000 of 300,000 bytes; run the command again"
    ):
        fetch(source, tmp_path, silent)
    assert leftovers(tmp_path) == ["a.bin.part", "a.bin.part.json"]
    with pytest.raises(DataFileError, match=r"broke after 200,000 of 300,000 bytes"):
        fetch(source, tmp_path, silent)
    server.break_after = None
    assert fetch(source, tmp_path, silent).read_bytes() == CONTENT
    ranges = [wanted for _, wanted in server.asked]
    assert ranges == [None, "bytes=100000-", "bytes=200000-"]
    assert leftovers(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("change", ["another file", "no ranges", "no mark"])
def test_a_part_of_something_else_is_not_gone_on_from(
    server: Served, tmp_path: Path, change: str
) -> None:
    server.files["/a.bin"] = CONTENT[::-1]
    server.break_after = 100_000
    if change == "no mark":
        server.mark = ""
    with pytest.raises(DataFileError, match="broke after"):
        fetch(source_of(server), tmp_path, silent)
    server.break_after = None
    server.files["/a.bin"] = CONTENT
    if change == "another file":
        server.mark = '"second"'
    else:
        server.ranges = False
    assert fetch(source_of(server), tmp_path, silent).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"md5": "0" * 32}, "its checksum is .* instead of 0000"),
        ({"size": 7}, "it has 300,000 bytes instead of 7"),
    ],
)
def test_another_file_than_the_published_one_is_thrown_away(
    server: Served, tmp_path: Path, wrong: dict[str, object], words: str
) -> None:
    server.files["/a.bin"] = CONTENT
    with pytest.raises(DataFileError, match=words):
        fetch(source_of(server, **wrong), tmp_path, silent)
    assert leftovers(tmp_path) == []


def test_the_checksum_of_a_compressed_file_is_that_of_its_content(
    server: Served, tmp_path: Path
) -> None:
    source = source_of(server, "/a.gz", file="a.gz", md5=hashlib.md5(CONTENT).hexdigest())
    server.files["/a.gz"] = gzip.compress(CONTENT)[:-20]
    with pytest.raises(DataFileError, match="checksum is that of a damaged file"):
        fetch(source, tmp_path, silent)
    server.files["/a.gz"] = gzip.compress(CONTENT)
    assert fetch(source, tmp_path, silent).name == "a.gz"


def test_the_next_mirror_is_asked_when_one_has_nothing(server: Served, tmp_path: Path) -> None:
    server.files["/good"] = CONTENT
    closed = "http://127.0.0.1:9/x"
    urls = (closed, f"{server.address}/missing", "file:///etc/passwd", f"{server.address}/good")
    assert fetch(Source(urls, "a"), tmp_path, silent).read_bytes() == CONTENT
    with pytest.raises(DataFileError) as error:
        fetch(Source(urls[:3], "b"), tmp_path, silent)
    assert "answered 404" in str(error.value)
    assert "refused" in str(error.value)
    assert "not a web address" in str(error.value)


def zip_of(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def tar_of(files: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in special:
            archive.addfile(member)
    return file.getvalue()


GOOD = {"pcba/raw/edge.csv.gz": b"1,2", "pcba/readme": b"hello"}
makers = pytest.mark.parametrize("make", [zip_of, tar_of])


@makers
def test_an_archive_is_unpacked(tmp_path: Path, make: object) -> None:
    (tmp_path / "a").write_bytes(make(GOOD))  # type: ignore[operator]
    assert unpack(tmp_path / "a", tmp_path / "out") == [tmp_path / "out" / "pcba"]
    assert (tmp_path / "out" / "pcba" / "raw" / "edge.csv.gz").read_bytes() == b"1,2"
    with pytest.raises(DataFileError, match=r"already exists"):
        unpack(tmp_path / "a", tmp_path / "out")


@makers
@pytest.mark.parametrize("name", ["../evil", "/evil", "a\\..\\..\\evil", "C:/evil", "a/../b"])
def test_names_that_lead_out_of_the_folder_are_refused(
    tmp_path: Path, make: object, name: str
) -> None:
    (tmp_path / "a").write_bytes(make({**GOOD, name: b"x"}))  # type: ignore[operator]
    (tmp_path / "deep" / "out").mkdir(parents=True)
    with pytest.raises(DataFileError, match="is outside of the folder"):
        unpack(tmp_path / "a", tmp_path / "deep" / "out")
    assert leftovers(tmp_path) == ["a"]


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "a").write_bytes(tar_of(GOOD, special("pcba/link", kind, "/etc/passwd")))
    with pytest.raises(DataFileError, match="'pcba/link' in it is a link or a device"):
        unpack(tmp_path / "a", tmp_path / "out")
    assert leftovers(tmp_path) == ["a"]


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("pcba/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataFileError, match="is a link or a device"):
        unpack(tmp_path / "a", tmp_path / "out")


def test_an_archive_that_grows_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zip archive states its size, which tests/data/test_hostile_tables.py refuses."""
    monkeypatch.setenv("EQRM_UNPACK_LIMIT", "1MB")
    (tmp_path / "a").write_bytes(tar_of({"bomb": bytes(5_000_000)}))
    with pytest.raises(DataFileError, match="far larger than expected"):
        unpack(tmp_path / "a", tmp_path / "out")
    assert leftovers(tmp_path) == ["a"]


@makers
@pytest.mark.parametrize("keep", [0, 10, 60])
def test_a_truncated_archive_is_refused(tmp_path: Path, make: object, keep: int) -> None:
    (tmp_path / "a").write_bytes(make({"x": CONTENT})[:keep])  # type: ignore[operator]
    with pytest.raises(DataFileError, match="truncated, damaged or not an archive"):
        unpack(tmp_path / "a", tmp_path / "out")


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_one_wrong_bit_anywhere_in_a_compressed_tar_is_refused(tmp_path: Path, kind: str) -> None:
    with tarfile.open(tmp_path / "a", f"w:{kind}") as tape:  # type: ignore[call-overload]
        content = np.random.default_rng(0).bytes(2000)  # cannot be compressed: stored as it is
        member = tarfile.TarInfo("pcba/raw")
        member.size = len(content)
        tape.addfile(member, io.BytesIO(content))
    whole = (tmp_path / "a").read_bytes()
    for place in range(40, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(DataFileError, match="is truncated, damaged"):
            unpack(tmp_path / "a", tmp_path / "out")


@pytest.fixture
def tiny(server: Served, monkeypatch: pytest.MonkeyPatch) -> Published:
    """A dataset of an archive and a file, on the local server."""
    server.files |= {"/pcba.zip": zip_of(GOOD), "/groups.npy": b"numbers"}
    entry = Published(
        title="Tiny",
        size="2 files",
        licence="MIT",
        homepage="http://example.org",
        places=("pcba/raw", "pcba/raw/groups.npy"),
        by_hand="Put it there.",
        sources=(
            Source((f"{server.address}/pcba.zip",), "pcba.zip", unpack=".", gives="pcba/raw"),
            Source((f"{server.address}/groups.npy",), "pcba/raw/groups.npy"),
        ),
    )
    monkeypatch.setitem(catalogue(), "tiny", entry)
    return entry


def test_a_dataset_is_fetched_unpacked_and_found(tiny: Published, tmp_path: Path) -> None:
    assert not tiny.found(tmp_path)
    came = get_dataset("tiny", tmp_path, lambda _: silent)
    assert [path.name for path in came] == ["pcba", "groups.npy"]
    assert tiny.found(tmp_path)
    assert leftovers(tmp_path) == ["edge.csv.gz", "groups.npy", "readme"]
    assert get_dataset("tiny", tmp_path, lambda _: silent) == []


def test_empty_folders_and_files_that_a_layout_needs_are_lacking(tmp_path: Path) -> None:
    ogb, terra = catalogue()["ogb-molpcba"], catalogue()["terraincognita"]
    (tmp_path / "pcba" / "raw").mkdir(parents=True)
    (tmp_path / "terra_incognita" / "eccv_18_all_images_sm").mkdir(parents=True)
    assert len(terra.lacking(tmp_path)) == 2
    (tmp_path / "terra_incognita" / "eccv_18_all_images_sm" / "a.jpg").touch()
    assert terra.lacking(tmp_path) == [terra.places[1].replace("|", " or ")]
    assert ogb.lacking(tmp_path) == [f"pcba/{file}" for file in ogb.files]
    for file in ogb.files:
        (tmp_path / "pcba" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pcba" / file).touch()
    assert ogb.found(tmp_path)
