"""GIN against torch-geometric, and against what a batch of graphs must not change."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from eqrm.predictors.gin import ATOM_FEATURES, BOND_FEATURES, GIN


@dataclass(frozen=True)
class Graphs:
    """The fields that GIN reads, nothing else."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor
    num_graphs: int


def random_graph(atoms: int, edges: int, seed: int) -> Graphs:
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int, sizes: tuple[int, ...]) -> Tensor:
        columns = [torch.randint(size, (rows,), generator=generator) for size in sizes]
        return torch.stack(columns, dim=1)

    ends = torch.randint(atoms, (2, edges), generator=generator)
    zeros = torch.zeros(atoms, dtype=torch.long)
    return Graphs(draw(atoms, ATOM_FEATURES), ends, draw(edges, BOND_FEATURES), zeros, 1)


def together(graphs: list[Graphs]) -> Graphs:
    starts = torch.tensor([0, *[len(g.x) for g in graphs]]).cumsum(0)[:-1]
    return Graphs(
        torch.cat([g.x for g in graphs]),
        torch.cat([g.edge_index + s for g, s in zip(graphs, starts, strict=True)], dim=1),
        torch.cat([g.edge_attr for g in graphs]),
        torch.cat([g.batch + i for i, g in enumerate(graphs)]),
        len(graphs),
    )


GRAPHS = [random_graph(5, 8, 0), random_graph(1, 0, 1), random_graph(12, 30, 2)]


def test_the_whole_network_computes_what_its_parts_in_torch_geometric_do() -> None:
    """WILDS's forward pass, with torch-geometric's convolutions and pooling."""
    geometric = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    predictor = GIN(3, width=12, depth=3).eval()
    torch.nn.init.normal_(predictor.featurizer.virtual_node)  # type: ignore[arg-type]
    parts, graph = predictor.featurizer, together(GRAPHS)
    virtual = parts.virtual_node.repeat(3, 1)  # type: ignore[operator,union-attr]
    before = parts.atom_encoder(graph.x)  # type: ignore[operator]
    for i in range(3):
        layer = parts.layers[i]  # type: ignore[index,union-attr]
        h = before + virtual[graph.batch]
        convolution = geometric.GINEConv(layer.mlp, eps=float(layer.eps.detach()))
        after = convolution(h, graph.edge_index, layer.bond_encoder(graph.edge_attr))
        after = parts.norms[i](after)  # type: ignore[index,operator,union-attr]
        if i < 2:
            after = after.relu()
            heard = geometric.global_add_pool(h, graph.batch) + virtual
            virtual = parts.virtual_mlps[i](heard)  # type: ignore[index,operator,union-attr]
        before = after
    truth = predictor.head(geometric.global_mean_pool(before, graph.batch))
    torch.testing.assert_close(predictor(graph), truth)


def test_graphs_in_a_batch_do_not_see_each_other() -> None:
    predictor = GIN(4, width=10).eval()
    torch.nn.init.normal_(predictor.featurizer.virtual_node)  # type: ignore[arg-type]
    alone = torch.cat([predictor(graph) for graph in GRAPHS])
    torch.testing.assert_close(predictor(together(GRAPHS)), alone)


def test_it_has_as_many_parameters_as_on_ogbs_leaderboard() -> None:
    """3,374,533 there, when OGB knew one chirality fewer; an embedding of 300 came with it."""
    assert sum(p.numel() for p in GIN(128).parameters()) == 3_374_533 + 300
