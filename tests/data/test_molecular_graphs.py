"""Molecules as domains and as graphs."""

from __future__ import annotations

import pytest
import torch

from eqrm.data.datasets.chemistry import graphs_of, parsed, scaffold_domains, scaffold_of
from eqrm.data.graphs import Graphs
from eqrm.errors import DomainDataError, SettingError

SMILES = ["CCO", "c1ccccc1", "C", "C[N+](C)(C)C", "Cl[C@H](/C=C/C)Br", "[Cu]12OC1O2"]


def test_molecules_with_the_same_rings_share_a_scaffold() -> None:
    toluene, anisole, ibuprofen = "Cc1ccccc1", "COc1ccccc1", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O"
    found = {scaffold_of(parsed(smiles)) for smiles in (toluene, anisole, ibuprofen)}
    assert found == {"c1ccccc1"}
    assert scaffold_of(parsed("C1CC1CCc1ccccc1")) == "c1ccc(CCC2CC2)cc1"


@pytest.mark.parametrize("smiles", ["", "C1CC", "xyz", "C(C"])
def test_what_is_no_molecule_is_none_without_a_message(
    smiles: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert parsed(smiles) is None
    assert capfd.readouterr().err == ""


def test_molecules_without_a_ring_are_what_was_chosen() -> None:
    scaffolds, smiles = ["", "c1ccccc1", "", None], ["CCO", "c1ccccc1", "CN", "?"]
    chosen = {
        choice: scaffold_domains(scaffolds, smiles, choice)
        for choice in ("one-domain", "own-domains", "leave-out")
    }
    assert chosen["one-domain"] == ["acyclic", "c1ccccc1", "acyclic", None]
    assert chosen["own-domains"] == ["CCO", "c1ccccc1", "CN", None]
    assert chosen["leave-out"] == [None, "c1ccccc1", None, None]
    with pytest.raises(SettingError, match="Did you mean 'leave-out'"):
        scaffold_domains(scaffolds, smiles, "leave_out")


def test_a_batch_of_graphs_is_what_torch_geometric_makes_of_the_same_molecules() -> None:
    data = pytest.importorskip("torch_geometric.data")
    graphs = graphs_of([parsed(smiles) for smiles in SMILES])
    rows = torch.tensor([4, 0, 2, 5, 4])
    ours = graphs[rows]
    alone = [graphs[row[None]] for row in rows]
    theirs = data.Batch.from_data_list(
        [data.Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in alone]
    )
    for field in ("x", "edge_index", "edge_attr", "batch"):
        assert torch.equal(getattr(ours, field), getattr(theirs, field)), field
    assert ours.num_graphs == len(ours) == theirs.num_graphs == 5


def test_the_edges_of_a_molecule_are_its_bonds_both_ways() -> None:
    batch = graphs_of([parsed("CCO")])[torch.tensor([0])]
    edges = sorted(map(tuple, batch.edge_index.T.tolist()))
    assert edges == [(0, 1), (1, 0), (1, 2), (2, 1)]
    atoms = batch.x[:, 0].tolist()
    assert atoms == [5, 5, 7]  # carbon, carbon, oxygen: atomic numbers from 1


@pytest.mark.parametrize(
    ("nodes", "edges", "index", "words"),
    [
        ([2, 1], [2, 0], [[0, 2], [2, 0]], "Graph 0 has 2 nodes, but an edge"),
        ([2, 2], [2, 0], [[0, 1], [1, 0]], r"must be \(2, 4, 2, .* got \(2, 3, 2"),
        ([2, 1], [2, 1], [[0, 1], [1, 0]], r"must be \(2, 3, 3, .* got \(2, 3, 2"),
        ([3, 0], [2, 0], [[0, 1], [1, 0]], "Every graph needs a node"),
    ],
)
def test_graphs_that_do_not_fit_together_are_refused(
    nodes: list[int], edges: list[int], index: list[list[int]], words: str
) -> None:
    with pytest.raises(DomainDataError, match=words):
        Graphs(
            torch.zeros(3, 1, dtype=torch.long),
            torch.tensor(index),
            torch.zeros(2, 1, dtype=torch.long),
            torch.tensor(nodes).cumsum(0),
            torch.tensor(edges).cumsum(0),
        )


def test_features_say_what_torch_geometric_reads_off_the_same_molecules() -> None:
    smiles_module = pytest.importorskip("torch_geometric.utils.smiles")
    molecules = [
        *SMILES,
        "CC(=O)Oc1ccccc1C(=O)O",
        "[Na+].[Cl-]",
        "N[C@@H](C)C(=O)O",
        "C#N",
        "[CH3]",
    ]
    # Their first column is the atomic number, ours counts from 1; the rest counts alike.
    same = {"atomic": (0, 0, -1), "degree": (2, 2, 0), "charge": (3, 3, 0), "hydrogens": (4, 4, 0)}
    same |= {"radicals": (5, 5, 0), "aromatic": (7, 7, 0), "ring": (8, 8, 0)}
    for smiles in molecules:
        theirs = smiles_module.from_smiles(smiles)
        ours = graphs_of([parsed(smiles)])[torch.tensor([0])]
        for name, (column, other, shift) in same.items():
            assert torch.equal(ours.x[:, column], theirs.x[:, other] + shift), (smiles, name)
        edges = set(map(tuple, ours.edge_index.T.tolist()))
        assert edges == set(map(tuple, theirs.edge_index.T.tolist()))
