"""What RDKit says of a molecule: its Bemis-Murcko scaffold, and its graph with OGB's features.

In graphs each feature is the place of a value in a list that OGB publishes, so that networks and
weights for its data fit; what is not in the list gets the last place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch

from eqrm.checks import one_of
from eqrm.data.graphs import Graphs
from eqrm.errors import DomainDataError, naming_extra

ACYCLIC = "acyclic"


@cache
def rdkit(module: str) -> Any:
    """A module of RDKit, or an error that names the extra to install."""
    with naming_extra("rdkit", "molecules", "Reading molecules from SMILES"):
        return import_module(f"rdkit.{module}")


def parsed(smiles: str) -> Any:
    """RDKit's molecule, or ``None`` for what it cannot read; RDKit's own messages are kept back."""
    with rdkit("rdBase").BlockLogs():
        return rdkit("Chem").MolFromSmiles(smiles) if smiles else None


def scaffold_of(molecule: Any) -> str:
    """The scaffold of RDKit's molecule as SMILES, without chirality; ``''`` if it has no ring."""
    scaffolds = rdkit("Chem.Scaffolds.MurckoScaffold")
    return str(scaffolds.MurckoScaffoldSmiles(mol=molecule, includeChirality=False))


def scaffold_domains(
    scaffolds: Sequence[str | None], smiles: Sequence[str], acyclic: str = "one-domain"
) -> list[str | None]:
    """The domain of each molecule, named by its scaffold; ``None`` for those that are left out.

    Molecules without a ring are a domain called ``acyclic`` (``"one-domain"``, as in MoleculeNet's
    and OGB's scaffold splits), a domain each, named by their SMILES (``"own-domains"``), or left
    out (``"leave-out"``).
    """
    one_of(acyclic, ("one-domain", "own-domains", "leave-out"), "value of acyclic")
    ringless = {"one-domain": ACYCLIC, "leave-out": None}
    return [
        ringless.get(acyclic, molecule) if scaffold == "" else scaffold
        for scaffold, molecule in zip(scaffolds, smiles, strict=True)
    ]


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
    """OGB's nine features of RDKit's atom."""
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
    """OGB's three features of RDKit's bond."""
    # A stereo mark that OGB's list does not know has no place for it: as if there were none.
    stereo = _place(_STEREO, bond.GetStereo()) % len(_STEREO)
    return [_place(_BOND_TYPE, bond.GetBondType()), stereo, int(bond.GetIsConjugated())]


def graphs_of(molecules: Iterable[Any]) -> Graphs:
    """RDKit's molecules as graphs; a bond is an edge there and an edge back."""
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
    ends = torch.tensor(sizes).cumsum(0)
    return Graphs(
        x=torch.from_numpy(np.array(atoms, dtype=np.uint8)),
        edge_index=torch.from_numpy(np.array(edges, dtype=np.int16).reshape(-1, 2).T.copy()),
        edge_attr=torch.from_numpy(np.array(bonds, dtype=np.uint8).reshape(-1, 3)),
        node_ends=ends[:, 0],
        edge_ends=ends[:, 1],
    )
