"""The Bemis-Murcko scaffold of a molecule: its rings and what joins them.

Molecules that share a scaffold are a domain: a chemist who works on a new scaffold asks how a
model does on molecules unlike those it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from eqrm.checks import one_of
from eqrm.errors import MissingExtraError

ACYCLIC = "acyclic"


@cache
def rdkit(module: str) -> Any:
    """A module of RDKit, or an error that names the extra to install."""
    try:
        return import_module(f"rdkit.{module}")
    except ImportError:
        raise MissingExtraError("rdkit", "molecules", "Reading molecules from SMILES") from None


def parsed(smiles: str) -> Any:
    """RDKit's molecule, or ``None`` for what it cannot read; RDKit's own messages are kept back.

    >>> parsed("CCO").GetNumAtoms(), parsed("not a molecule")
    (3, None)
    """
    with rdkit("rdBase").BlockLogs():
        return rdkit("Chem").MolFromSmiles(smiles) if smiles else None


def scaffold_of(molecule: Any) -> str:
    """The scaffold of RDKit's molecule as SMILES, without chirality; ``''`` if it has no ring."""
    scaffolds = rdkit("Chem.Scaffolds.MurckoScaffold")
    found: str = scaffolds.MurckoScaffoldSmiles(mol=molecule, includeChirality=False)
    return found


def murcko_scaffold(smiles: str) -> str | None:
    """The scaffold of a molecule as SMILES; ``''`` if it has no ring, ``None`` if unreadable.

    >>> murcko_scaffold("CCOc1ccccc1"), murcko_scaffold("CCO"), murcko_scaffold("C1C")
    ('c1ccccc1', '', None)
    """
    molecule = parsed(smiles)
    return None if molecule is None else scaffold_of(molecule)


def scaffold_domains(
    scaffolds: Sequence[str | None], smiles: Sequence[str], acyclic: str = "one-domain"
) -> list[str | None]:
    """The domain of each molecule; ``None`` for molecules that are left out.

    A domain is named by its scaffold. What no ring means has to be decided: molecules without
    one share nothing but that. ``acyclic`` is

    - ``"one-domain"``: they are a domain of their own, called ``acyclic``. This is what
      MoleculeNet's and OGB's scaffold splits do, and it is the default. It is one of the
      largest domains, and the most mixed.
    - ``"own-domains"``: each different molecule is a domain, named by its SMILES.
    - ``"leave-out"``: they are left out.

    >>> scaffold_domains(["c1ccccc1", "", None], ["Cc1ccccc1", "CCO", "?"])
    ['c1ccccc1', 'acyclic', None]
    """
    choices: dict[str, Callable[[str], str | None]] = {
        "one-domain": lambda _: ACYCLIC,
        "own-domains": lambda molecule: molecule,
        "leave-out": lambda _: None,
    }
    ringless = choices[one_of(acyclic, choices, "value of acyclic")]
    return [
        ringless(molecule) if scaffold == "" else scaffold
        for scaffold, molecule in zip(scaffolds, smiles, strict=True)
    ]
