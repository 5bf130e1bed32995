"""Datasets: damaged files, batches of several processes, and downloads, at full size."""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from verify.registry import Options, Result, check, passed

import eqrm
from data.local_server import local_server
from data.wilds_layout import write_iwildcam, write_ogb_molpcba
from eqrm.data.datasets.downloads import fetch
from eqrm.data.datasets.mnist import read_idx
from eqrm.data.datasets.registry import Source
from eqrm.errors import DataFileError, EqrmError

DATA = Path(os.environ.get("EQRM_DATA", "/nonexistent"))
NO_DATA = "EQRM_DATA does not name a data root with the files of this check"


@contextmanager
def own_folder() -> Iterator[Path]:
    """A temporary folder with its own cache; both are removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("EQRM_CACHE")
        os.environ["EQRM_CACHE"] = str(Path(folder) / "cache")
        try:
            yield Path(folder)
        finally:
            os.environ.pop("EQRM_CACHE")
            if before is not None:
                os.environ["EQRM_CACHE"] = before


@contextmanager
def quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings instead of printing them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield said


class Trap:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.mark),))


def small_files(folder: Path) -> dict[str, tuple[Path, Callable[[], object]]]:
    """A small file of each kind that datasets are read from, and what reads it."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (40, 28, 28), dtype=np.uint8)
    idx = folder / "images-idx3-ubyte.gz"
    import gzip

    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in images.shape)
    idx.write_bytes(gzip.compress(header + images.tobytes()))
    table = folder / "small.csv.gz"
    rows = "\n".join(f"{'C' * (1 + i % 9)}c1ccccc1,{i % 2}" for i in range(60))
    table.write_bytes(gzip.compress(f"smiles,active\n{rows}\n".encode()))
    archive = folder / "images.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as opened:
        for number in range(12):
            opened.writestr(f"d{number % 3}/c{number % 2}/{number}.jpg", _jpeg(random))
    ogb = write_ogb_molpcba(folder)
    cameras = write_iwildcam(folder)
    return {
        "idx": (idx, lambda: read_idx(idx)),
        "molecules": (table, lambda: eqrm.dataset("molecules", file=str(table)).y),
        "image archive": (
            archive,
            lambda: eqrm.dataset("image-folder", folder=str(archive), size=16).x,
        ),
        "OGB atoms": (ogb / "raw" / "node-feat.csv.gz", lambda: _ogb(folder)),
        "OGB labels": (ogb / "raw" / "graph-label.csv.gz", lambda: _ogb(folder)),
        "OGB scaffolds": (ogb / "raw" / "scaffold_group.npy", lambda: _ogb(folder)),
        "iWildCam metadata": (
            cameras / "metadata.csv",
            lambda: eqrm.dataset("iwildcam", folder, size=8).y,
        ),
    }


def _jpeg(random: np.random.Generator) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(file, "JPEG")
    return file.getvalue()


def _ogb(folder: Path) -> object:
    data = eqrm.dataset("ogb-molpcba", folder)
    return (data.rows(torch.arange(len(data))).x.x, data.y, data.domains)


def outcome(read: Callable[[], object], intact: object) -> str:
    """Whether a changed file was refused, made no difference, or was read as other data."""
    try:
        with quiet():
            found = read()
    except EqrmError:
        return "refused"
    same = str(found) == str(intact)
    return "no difference" if same else "another content"


@check(
    "data.damaged-files",
    "damaged, truncated and foreign dataset files are refused; no file runs code",
)
def damaged_files(options: Options) -> Result:
    """Every kind of file, cut off, changed bit by bit, or replaced by a pickle."""
    torch.set_printoptions(threshold=10**7)
    counts: dict[str, Counter[str]] = {}
    with own_folder() as folder:
        mark = folder / "ran"
        for kind, (path, read) in small_files(folder).items():
            whole, found = path.read_bytes(), Counter()
            with quiet():
                intact = read()
            random = np.random.default_rng(1)
            for length in random.integers(0, int(0.9 * len(whole)), 40):
                path.write_bytes(whole[:length])
                found[f"cut off: {outcome(read, intact)}"] += 1
            for place in random.integers(0, len(whole), 60):
                changed = bytearray(whole)
                changed[place] ^= 1 << int(random.integers(8))
                path.write_bytes(changed)
                found[f"one bit: {outcome(read, intact)}"] += 1
            for foreign in (pickle.dumps(Trap(mark)), b"", b"<html>404</html>", os.urandom(500)):
                path.write_bytes(foreign)
                found[f"foreign: {outcome(read, intact)}"] += 1
            path.write_bytes(whole)
            counts[kind] = found
        ran = mark.exists()
    torch.set_printoptions(profile="default")
    total: Counter[str] = sum(counts.values(), Counter())
    taken = total["cut off: another content"] + total["foreign: another content"]
    # Plain text and .npy carry no checksum: a digit that became another digit cannot be detected.
    unchecked = ("iWildCam metadata", "OGB scaffolds")
    bits = sum(counts[k]["one bit: another content"] for k in counts if k not in unchecked)
    summary = (
        f"{len(counts)} kinds of file: truncated {total['cut off: refused']} of 280 refused, "
        f"foreign {total['foreign: refused']} of 28 refused, one bit "
        f"{total['one bit: refused']} of 420 refused and {total['one bit: no difference']} without "
        f"effect; read as other data: {taken} truncated or foreign, {bits} of one bit in files "
        f"with a checksum; code run: {ran}"
    )
    return passed(taken == 0 and bits == 0 and not ran, summary, counts=counts)


@check("data.batches", "the batches of 1, 2, 3 and 5 processes are the same, also resumed")
def batches_of_processes(options: Options) -> Result:
    """45,001 domains, 1,001 in a batch: all ranks together, and a stream resumed half-way."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.cat([torch.arange(45_001), torch.randint(45_001, (300_000,), generator=generator)])
    compared = 0
    right = True
    for settings in (
        {"domains_per_batch": 1001, "examples_per_domain": 4},
        {"domains_per_batch": 1001, "examples_per_domain": None},
        {"domains_per_batch": 101, "examples_per_domain": 3, "over": "examples"},
        {"domains_per_batch": 11, "examples_per_domain": 3, "repeat_examples": True},
    ):
        stream = eqrm.data.DomainBatches(ids, **settings)
        alone = [next(stream) for _ in range(12)]
        for across in ("domains", "examples"):
            for size in (2, 3, 5):
                ranks = [
                    eqrm.data.DomainBatches(ids, **settings, rank=r, world_size=size, across=across)
                    for r in range(size)
                ]
                for rows in alone:
                    parts = torch.cat([next(rank) for rank in ranks])
                    right &= torch.equal(parts.sort().values, rows.sort().values)
                    compared += 1
        stopped = eqrm.data.DomainBatches(ids, **settings)
        for _ in range(5):
            next(stopped)
        resumed = eqrm.data.DomainBatches(ids, **settings)
        resumed.load_state_dict(stopped.state_dict())
        right &= all(torch.equal(next(resumed), rows) for rows in alone[5:])
    return passed(right, f"{compared} batches of up to 5 processes equal to those of one")


@check("data.downloads", "eqrm data get resumes at any byte and keeps no wrong file")
def downloads(options: Options) -> Result:
    """A server that breaks off at 25 random bytes, then a wrong checksum, a 404, a cut-off file."""
    import hashlib

    content = np.random.default_rng(0).integers(0, 256, 2_000_000, dtype=np.uint8).tobytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    random = np.random.default_rng(1)
    breaks = 0
    with own_folder() as folder, local_server() as server:
        server.files["/a"] = content
        source = Source((f"{server.address}/a",), "a.bin", md5, len(content))
        sent = 0
        while True:
            server.break_after = int(random.integers(1, 160_000)) if breaks < 25 else None
            try:
                fetch(source, folder, lambda *_: None)
                break
            except DataFileError:
                breaks += 1
                sent += server.break_after or 0
        whole = (folder / "a.bin").read_bytes() == content
        server.break_after = None
        again = sum(wanted is None for _, wanted in server.asked)
        refused = 0
        for name, wrong in (("/b", content[:-1]), ("/c", content[::-1]), ("/missing", None)):
            if wrong is not None:
                server.files[name] = wrong
            try:
                fetch(Source((server.address + name,), "b.bin", md5), folder, lambda *_: None)
            except DataFileError:
                refused += 1
        left = sorted(path.name for path in folder.iterdir())
    return passed(
        whole and again == 1 and refused == 3 and left == ["a.bin"],
        f"interrupted {breaks} times, complete: {whole}, started from 0: {again} time; "
        f"{refused} of 3 wrong files refused; files kept: {', '.join(left)}",
    )
