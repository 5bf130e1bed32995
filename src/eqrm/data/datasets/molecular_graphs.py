"""Molecules as graphs: OGB's nine features of an atom and three of a bond.

Each feature is the place of a value in a list; what is not in the list gets the last place.
The lists are those that OGB publishes, so that networks and weights for its data fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import torch

from eqrm.data.graphs import Graphs
from eqrm.errors import DomainDataError

ATOM_FEATURES = {
    "atomic number, from 1": 119,
    "chirality": 5,
    "degree, with hydrogens": 12,
    "formal charge, from -5": 12,
    "hydrogens": 10,
    "radical electrons": 6,
    "hybridization": 6,
    "aromatic": 2,
    "in a ring": 2,
}
"""What each column of ``x`` says, and how many values it has."""

BOND_FEATURES = {"type": 5, "stereo": 6, "conjugated": 2}
"""What each column of ``edge_attr`` says, and how many values it has."""

_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")


@cache
def _place(values: tuple[str, ...], value: object) -> int:
    """Where a value of RDKit's enumerations stands in a list; behind the end if it does not."""
    text = str(value)
    return values.index(text) if text in values else len(values)


def _count(value: int, low: int, high: int) -> int:
    """value − low if it lies between low and high; the place after high's if not."""
    return value - low if low <= value <= high else high - low + 1


def atom_features(atom: Any) -> list[int]:
    """OGB's nine features of RDKit's atom.

    >>> from eqrm.data.datasets.scaffolds import parsed
    >>> atom_features(parsed("Cl[C@H](/C=C/C)Br").GetAtomWithIdx(1))
    [5, 2, 4, 5, 1, 0, 2, 0, 0]
    """
    return [
        _count(atom.GetAtomicNum(), 1, 118),
        _place(_CHIRALITY, atom.GetChiralTag()),
        _count(atom.GetTotalDegree(), 0, 10),
        _count(atom.GetFormalCharge(), -5, 5),
        _count(atom.GetTotalNumHs(), 0, 8),
        _count(atom.GetNumRadicalElectrons(), 0, 4),
        _place(_HYBRIDIZATION, atom.GetHybridization()),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    ]


def bond_features(bond: Any) -> list[int]:
    """OGB's three features of RDKit's bond.

    >>> from eqrm.data.datasets.scaffolds import parsed
    >>> bond_features(parsed("Cl[C@H](/C=C/C)Br").GetBondWithIdx(2))
    [1, 2, 0]
    """
    # A stereo mark that OGB's list does not know has no place for it: as if there were none.
    stereo = _place(_STEREO, bond.GetStereo()) % len(_STEREO)
    return [_place(_BOND_TYPE, bond.GetBondType()), stereo, int(bond.GetIsConjugated())]


def graphs_of(molecules: Iterable[Any]) -> Graphs:
    """RDKit's molecules as graphs; a bond is an edge there and an edge back.

    >>> from eqrm.data.datasets.scaffolds import parsed
    >>> graphs_of([parsed("CO"), parsed("C")])[torch.tensor([0, 1])].edge_index
    tensor([[0, 1], [1, 0]])
    """
    atoms, edges, bonds, sizes = [], [], [], []
    for number, molecule in enumerate(molecules):
        if molecule.GetNumAtoms() == 0:
            raise DomainDataError(f"Molecule {number} has no atom.")
        for atom in molecule.GetAtoms():
            atoms.append(atom_features(atom))
        for bond in molecule.GetBonds():
            start, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            edges += [(start, end), (end, start)]
            bonds += [bond_features(bond)] * 2
        sizes.append((molecule.GetNumAtoms(), 2 * molecule.GetNumBonds()))
    if not sizes:
        raise DomainDataError("At least one molecule is needed, got none.")
    nodes_and_edges = torch.tensor(sizes)
    return Graphs.from_sizes(
        x=torch.from_numpy(np.array(atoms, dtype=np.uint8)),
        edge_index=torch.from_numpy(np.array(edges, dtype=np.int16).reshape(-1, 2).T.copy()),
        edge_attr=torch.from_numpy(np.array(bonds, dtype=np.uint8).reshape(-1, 3)),
        nodes=nodes_and_edges[:, 0],
        edges=nodes_and_edges[:, 1],
    )
