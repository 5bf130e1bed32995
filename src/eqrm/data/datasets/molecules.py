"""Molecules with their scaffolds as domains: from tables of SMILES, and OGB's own files.

OGB-MolPCBA has 437,929 molecules, 128 assays and 120,084 scaffolds.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import OPEN_FRACTION, one_of, refuse_unknown
from eqrm.data.datasets.chemistry import (
    ATOM_FEATURES,
    BOND_FEATURES,
    graphs_of,
    parsed,
    rdkit,
    scaffold_domains,
    scaffold_of,
)
from eqrm.data.datasets.data_root import cached, data_file, file_key, progress
from eqrm.data.domain_data import DomainData, InputsAt
from eqrm.data.graphs import Graphs
from eqrm.data.splits import parts_of_domains, refuse_shared
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.kinds import NUMBER, column_of
from eqrm.data.tables.reading import read_texts
from eqrm.errors import DataFileError, DomainDataError, EqrmWarning, SettingError
from eqrm.files.archive import Archive
from eqrm.files.reading import DAMAGES, opened_gzip, refusing_damage
from eqrm.text import listed

INPUTS = ("graphs", "fingerprints")
UNPARSEABLE = ("leave-out", "refuse")
NOT_TASKS = ("smiles", "mol_id", "activity")
PARTS = ("val", "test")


def molecules(
    root: str | os.PathLike[str] | None = None,
    *,
    file: str | Sequence[str],
    tasks: Sequence[str] | None = None,
    smiles: str = "smiles",
    inputs: str = "graphs",
    acyclic: str = "one-domain",
    unparseable: str = "leave-out",
    min_examples: int = 1,
    bits: int = 1024,
    parts: Mapping[str, float] | None = None,
) -> DomainData:
    """Molecules of a CSV file by Murcko scaffold.

    y is (n, tasks), NaN where a label is missing; ``tasks`` are by default all columns but SMILES
    and names. x are graphs, or Morgan fingerprints of radius 2 and length ``bits``. ``parts`` are
    shares of the scaffolds that are drawn as the parts ``val`` and ``test``; the others are
    ``train``. docs/data.md describes the other settings.
    """
    if parts is not None:
        refuse_unknown(parts, PARTS, "parts", "part")
        for name, share in parts.items():
            OPEN_FRACTION.check(share, f"parts: the share of {name}")
    one_of(inputs, INPUTS, "kind of inputs")
    one_of(unparseable, UNPARSEABLE, "value of unparseable")
    path = data_file(root, *([file] if isinstance(file, str) else file))
    texts, labels, tasks = read_molecules(path, smiles, tasks)
    stored = cached(
        f"{path.name.split('.')[0]}-{inputs}",
        file_key(path, smiles, inputs, str(bits), rdkit("rdBase").rdkitVersion, "1"),
        lambda: _from_smiles(texts, inputs, bits),
    )
    labelled = ~labels.isnan().all(1)
    tell_left_out(path, stored.tensors["readable"], labelled, unparseable)
    readable = torch.nonzero(stored.tensors["readable"]).reshape(-1)
    scaffolds = [stored.content["scaffolds"][i] for i in stored.tensors["scaffold"].tolist()]
    domains = scaffold_domains(scaffolds, [texts[i] for i in readable.tolist()], acyclic)
    used = zip(domains, labelled[readable].tolist(), strict=True)
    kept = [i for i, (name, known) in enumerate(used) if name is not None and known]
    if not kept:
        raise DomainDataError(f"{path} contains no molecule that can be used.")
    rows = torch.tensor(kept)
    data = DomainData.from_arrays(
        stored.tensors["bits"][rows].float()
        if inputs == "fingerprints"
        else InputsAt.of(Graphs.from_tensors(stored.tensors), rows),
        labels[readable[rows]],
        [domains[i] for i in kept],
        target_names=tasks,
    )
    large = [
        name for name, n in zip(data.names, data.counts.tolist(), strict=True) if n >= min_examples
    ]
    if not large:
        raise SettingError(
            f"No domain has {min_examples} examples; the largest has {int(data.counts.max())}."
        )
    data = data.select(large)
    if parts is None:
        return data
    given = {"train": None, "validation": parts.get("val", 0.0), "test": parts.get("test", 0.0)}
    drawn = parts_of_domains(given, data.names, seed=0)
    drawn["val"] = drawn.pop("validation")
    named = {part: tuple(data.names[i] for i in ids) for part, ids in drawn.items()}
    return replace(data, parts=named)


def read_molecules(
    path: Path, smiles: str, tasks: Sequence[str] | None
) -> tuple[list[str], Tensor, tuple[str, ...]]:
    """SMILES, labels (n, tasks) and the names of the tasks; labels are numbers or missing."""
    columns = read_texts(path, None if tasks is None else [smiles, *tasks])
    refuse_absent([smiles], list(columns))
    if tasks is None:
        tasks = [name for name in columns if name not in (*NOT_TASKS, smiles)]
    if not tasks:
        raise SettingError("tasks must name at least one column of labels.")
    if not columns[smiles]:
        raise DataFileError(f"{path} contains no molecules.")
    labels = [column_of(task, np.array(columns[task]), NUMBER) for task in tasks]
    return columns[smiles], torch.from_numpy(np.stack(labels, axis=1)).float(), tuple(tasks)


def tell_left_out(path: Path, readable: Tensor, labelled: Tensor, unparseable: str) -> None:
    """Warn about molecules that cannot be used, or refuse them."""
    for usable, what in (
        (readable, "cannot be read as molecules by RDKit"),
        (labelled, "have no label at all"),
    ):
        rows = (torch.nonzero(~usable).reshape(-1) + 1).tolist()
        if not rows:
            continue
        found = (
            f"{path.name}: {len(rows):,} of {len(usable):,} SMILES {what} (rows {listed(rows, 8)})"
        )
        if unparseable == "refuse":
            raise DataFileError(
                f"{found}. Fix the file, or set unparseable='leave-out' to leave them out."
            )
        warnings.warn(f"{found} and are left out.", EqrmWarning, stacklevel=3)


def _from_smiles(smiles: Sequence[str], inputs: str, bits: int) -> Archive:
    """Scaffolds and inputs of all that RDKit can read."""
    found = [parsed(text) for text in progress(smiles, "Reading molecules")]
    readable = [molecule for molecule in found if molecule is not None]
    if not readable:
        raise DomainDataError("RDKit can read none of the SMILES. Is it the right column?")
    names, ids = np.unique([scaffold_of(molecule) for molecule in readable], return_inverse=True)
    tensors = {
        "readable": torch.tensor([molecule is not None for molecule in found]),
        "scaffold": torch.from_numpy(ids.astype(np.int32)),
    }
    if inputs == "graphs":
        tensors |= vars(graphs_of(progress(readable, "Drawing graphs")))
    else:
        made = rdkit("Chem.rdFingerprintGenerator").GetMorganGenerator(radius=2, fpSize=bits)
        rows = [made.GetFingerprintAsNumPy(molecule) for molecule in readable]
        tensors["bits"] = torch.from_numpy(np.stack(rows))
    return Archive({"scaffolds": names.tolist()}, tensors)


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
