"""Molecules as a table: RDKit's descriptors in columns, one label, the scaffold as domain."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from eqrm.data import Table
from eqrm.data.datasets.chemistry import parsed, rdkit, scaffold_of
from eqrm.data.datasets.data_root import cached, data_file, file_key
from eqrm.data.datasets.molecules import read_molecules, tell_left_out
from eqrm.files.archive import Archive

DESCRIPTORS = {
    "weight": "Descriptors.MolWt",
    "log_p": "Crippen.MolLogP",
    "refractivity": "Crippen.MolMR",
    "polar_surface": "rdMolDescriptors.CalcTPSA",
    "surface": "rdMolDescriptors.CalcLabuteASA",
    "donors": "rdMolDescriptors.CalcNumHBD",
    "acceptors": "rdMolDescriptors.CalcNumHBA",
    "rotatable_bonds": "rdMolDescriptors.CalcNumRotatableBonds",
    "rings": "rdMolDescriptors.CalcNumRings",
    "aromatic_rings": "rdMolDescriptors.CalcNumAromaticRings",
    "sp3_carbons": "rdMolDescriptors.CalcFractionCSP3",
    "heteroatoms": "rdMolDescriptors.CalcNumHeteroatoms",
    "chi": "rdMolDescriptors.CalcChi0v",
    "alpha": "rdMolDescriptors.CalcHallKierAlpha",
}
"""Column to where RDKit computes it: size, polarity, flexibility and rings."""


def descriptor_table(
    root: str | os.PathLike[str] | None = None,
    *,
    file: str = "molecules/tox21.csv.gz",
    task: str = "NR-ER",
) -> Table:
    """Molecules with a label for one task, by Murcko scaffold, with 14 descriptors as features.

    A table with many domains, most of them small: Tox21's NR-ER (does a substance act on the
    oestrogen receptor?) has 6,309 molecules on 1,769 scaffolds, 1,338 of which hold one molecule.
    Molecules without a ring are one domain.
    Molecules that RDKit cannot read, or without any label, are left out with a warning that counts
    them; those without a label for ``task`` are left out.
    """
    path = data_file(root, file)
    texts, all_labels, _ = read_molecules(path, "smiles", [task])
    stored = cached(
        f"{path.name.split('.')[0]}-descriptors",
        file_key(path, *DESCRIPTORS.values(), rdkit("rdBase").rdkitVersion, "1"),
        lambda: _described(texts),
    )
    readable = stored.tensors["readable"].numpy()
    labelled = ~all_labels.isnan().all(1)
    tell_left_out(path, torch.from_numpy(readable), labelled, "leave-out")
    names = [stored.content["scaffolds"][i] for i in stored.tensors["scaffold"].tolist()]
    domains = np.array([name or "acyclic" for name in names], dtype=object)
    labels = all_labels[:, 0].numpy()[readable]
    kept = ~np.isnan(labels)
    values = stored.tensors["values"].numpy()[kept]
    columns = {name: values[:, place] for place, name in enumerate(DESCRIPTORS)}
    return Table(columns, labels[kept].astype(float), domains[kept], task, "scaffold")


def _described(smiles: list[str]) -> Archive:
    found = [parsed(text) for text in smiles]
    molecules = [molecule for molecule in found if molecule is not None]
    functions = [_function(place) for place in DESCRIPTORS.values()]
    values = [[float(function(molecule)) for function in functions] for molecule in molecules]
    names, ids = np.unique([scaffold_of(each) for each in molecules], return_inverse=True)
    return Archive(
        {"scaffolds": names.tolist()},
        {
            "readable": torch.tensor([molecule is not None for molecule in found]),
            "scaffold": torch.from_numpy(ids.astype(np.int32)),
            "values": torch.tensor(values, dtype=torch.float64),
        },
    )


def _function(place: str) -> Callable[[Any], float]:
    module, _, name = place.partition(".")
    function: Callable[[Any], float] = getattr(rdkit(f"Chem.{module}"), name)
    return function
