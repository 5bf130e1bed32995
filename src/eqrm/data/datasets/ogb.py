"""OGB-MolPCBA: 437,929 molecules, 128 assays, 120,084 scaffolds, from OGB's own files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import one_of
from eqrm.data.datasets.chemistry import ATOM_FEATURES, BOND_FEATURES
from eqrm.data.datasets.data_root import cached, data_file, file_key
from eqrm.data.domain_data import DomainData, InputsAt
from eqrm.data.graphs import Graphs
from eqrm.data.splits import refuse_shared
from eqrm.data.tables.reading import read_texts
from eqrm.errors import DataFileError, DomainDataError
from eqrm.files.archive import Archive
from eqrm.files.reading import DAMAGES, opened_gzip, refusing_damage

FOLDERS = ("ogbg_molpcba", "ogbg_molpcba_pyg", "pcba")
SPLIT_FILES = {"train": "train", "val": "valid", "test": "test"}


def ogb_molpcba(root: str | os.PathLike[str] | None = None, *, split: str = "all") -> DomainData:
    """OGB-MolPCBA (in WILDS too) as its official download unpacks, by scaffold.

    The folder ``ogbg_molpcba`` holds ``raw/*.csv.gz`` (atoms, bonds and labels end to end),
    ``raw/scaffold_group.npy`` (WILDS's scaffold of each molecule), ``mapping/mol.csv.gz`` (names of
    the labels) and ``split/scaffold/*.csv.gz``. x are graphs, y is (n, 128) with NaN for labels
    that are missing. ``split`` is ``"train"``, ``"val"``, ``"test"``, or ``"all"`` of them, which
    are then parts.
    """
    one_of(split, ("all", *SPLIT_FILES), "split")
    folder = data_file(root, *FOLDERS)
    stored = cached("ogbg-molpcba", _key(folder), lambda: _from_files(folder))
    graphs = Graphs.from_tensors(stored.tensors)
    wanted = SPLIT_FILES if split == "all" else {split: SPLIT_FILES[split]}
    listed = {name: _split_rows(folder, file, len(graphs)) for name, file in wanted.items()}
    rows = torch.cat(list(listed.values()))
    names = [stored.content["scaffolds"][i] for i in stored.tensors["scaffold"].tolist()]
    labels = stored.tensors["labels"][rows]
    parts = {
        name: tuple(sorted({names[row] for row in part.tolist()})) for name, part in listed.items()
    }
    refuse_shared(parts, f"{folder}: the scaffold")
    return DomainData.from_arrays(
        InputsAt.of(graphs, rows),
        labels,
        [names[row] for row in rows.tolist()],
        target_names=_task_names(folder / "mapping" / "mol.csv.gz", labels.shape[1]),
        parts=parts,
    )


def _split_rows(folder: Path, file: str, molecules: int) -> Tensor:
    path = folder / "split" / "scaffold" / f"{file}.csv.gz"
    rows = torch.from_numpy(_read_numbers(path, np.int64)[:, 0])
    if len(rows) == 0 or int(rows.min()) < 0 or int(rows.max()) >= molecules:
        raise DataFileError(f"{path} must list molecules from 0 to {molecules - 1}.")
    return rows


def _key(folder: Path) -> str:
    """A key of names, sizes and times: hashing hundreds of megabytes would take too long."""
    files = sorted(folder.glob("raw/*"))
    with refusing_damage(folder / "raw" / "num-node-list.csv.gz"):
        stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return file_key(folder / "raw" / "num-node-list.csv.gz", "1", repr(stats))


def _from_files(folder: Path) -> Archive:
    raw = folder / "raw"
    nodes = torch.from_numpy(_read_numbers(raw / "num-node-list.csv.gz", np.int64)[:, 0])
    edges = torch.from_numpy(_read_numbers(raw / "num-edge-list.csv.gz", np.int64)[:, 0])
    x = _features(raw / "node-feat.csv.gz", list(ATOM_FEATURES.values()))
    bonds = _features(raw / "edge-feat.csv.gz", list(BOND_FEATURES.values()))
    pairs = torch.from_numpy(_read_numbers(raw / "edge.csv.gz", np.int16))
    labels = torch.from_numpy(_read_numbers(raw / "graph-label.csv.gz", np.float32))
    if not len(nodes) == len(edges) == len(labels) or pairs.shape != (len(bonds), 2):
        raise DataFileError(
            f"The files in {raw} do not belong together: {len(nodes)} molecules in num-node-list, "
            f"{len(edges)} in num-edge-list, {len(labels)} in graph-label; {len(bonds)} bonds in "
            f"edge-feat, {len(pairs)} in edge."
        )
    # Each bond is listed once: an edge there, and an edge back.
    both = torch.stack([pairs, pairs.flip(1)], 1).reshape(-1, 2)
    try:
        both_ways = both.T.contiguous(), bonds.repeat_interleave(2, 0)
        graphs = Graphs(x, *both_ways, nodes.cumsum(0), 2 * edges.cumsum(0))
    except DomainDataError as error:
        raise DataFileError(f"The files in {raw} do not belong together: {error}") from None
    ids, scaffolds = _scaffolds(folder, len(graphs))
    return Archive({"scaffolds": scaffolds}, {**vars(graphs), "labels": labels, "scaffold": ids})


def _task_names(path: Path, tasks: int) -> tuple[str, ...]:
    """The names of the assays in the table of SMILES; numbers where it has none."""
    if path.is_file():
        named = [name for name in read_texts(path) if name not in ("smiles", "mol_id")]
        if len(named) == tasks:
            return tuple(named)
    return tuple(f"assay {number}" for number in range(tasks))


def _features(path: Path, sizes: list[int]) -> Tensor:
    values = _read_numbers(path, np.int64)
    if values.shape[1] != len(sizes):
        raise DataFileError(f"{path} must have {len(sizes)} columns, got {values.shape[1]}.")
    if len(values) and ((values < 0) | (values >= np.array(sizes))).any():
        raise DataFileError(
            f"{path} holds a feature that OGB's list does not have. Is it another version?"
        )
    return torch.from_numpy(values.astype(np.uint8))


def _scaffolds(folder: Path, molecules: int) -> tuple[Tensor, list[str]]:
    """The number of each molecule's scaffold, and the names of the scaffolds."""
    path = folder / "raw" / "scaffold_group.npy"
    if not path.is_file():
        raise DataFileError(f"{path} is missing. 'eqrm data get ogb-molpcba' fetches it.")
    try:
        # A pickle could run code; a map of the file cannot state more than there is.
        groups = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGES as error:
        raise DataFileError(f"{path} is not an array of numbers: {error}.") from None
    if groups.size != molecules or groups.dtype.kind not in "iu":
        raise DataFileError(
            f"{path} must hold {molecules} integers, got {groups.size} of {groups.dtype}."
        )
    scaffolds, ids = np.unique(groups.reshape(-1).astype(str), return_inverse=True)
    return torch.from_numpy(ids.reshape(-1).astype(np.int32)), scaffolds.tolist()


def _read_numbers(path: Path, dtype: Any) -> Any:
    """A compressed table of numbers without a header, (rows, columns)."""
    import pandas

    with refusing_damage(path):
        try:
            with opened_gzip(path) as file:
                table = pandas.read_csv(file, header=None)
            values = table.to_numpy()
            if dtype != np.float32 and values.dtype.kind not in "iu":
                raise ValueError("it does not hold integers only")
            found = values.astype(dtype)
            if dtype != np.float32 and (found != values).any():
                raise ValueError("a number is too large")
        except (ValueError, TypeError) as error:
            raise DataFileError(f"{path} is not a table of numbers: {error}.") from None
    return found
