"""Molecules from tables of SMILES, with their scaffolds as domains."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import OPEN_FRACTION, one_of, refuse_unknown
from eqrm.data.datasets.chemistry import graphs_of, parsed, rdkit, scaffold_domains, scaffold_of
from eqrm.data.datasets.data_root import cached, data_file, file_key, progress
from eqrm.data.domain_data import DomainData, InputsAt
from eqrm.data.graphs import Graphs
from eqrm.data.splits import parts_of_domains
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.kinds import NUMBER, column_of
from eqrm.data.tables.reading import read_texts
from eqrm.errors import DataFileError, DomainDataError, EqrmWarning, SettingError
from eqrm.files.archive import Archive
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
