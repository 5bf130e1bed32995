"""Graph isomorphism network with a virtual node, for molecules (OGB and WILDS's OGB-MolPCBA)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from eqrm.predictors.base import Loss, Predictor

ATOM_FEATURES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""How many values each of OGB's nine categorical features of an atom has."""

BOND_FEATURES = (5, 6, 2)
"""How many values each of OGB's three categorical features of a bond has."""


class CategoricalEncoder(nn.Module):
    """The sum of one embedding per categorical feature: (n, features) integers → (n, width)."""

    offsets: Tensor

    def __init__(self, sizes: Sequence[int], width: int) -> None:
        super().__init__()
        # All embeddings in one table, and one product of matrices instead of nine look-ups: its
        # gradient needs no sorting, and is the same in every run.
        starts = torch.tensor([0, *sizes]).cumsum(0)[:-1]
        self.register_buffer("offsets", starts, persistent=False)
        self.table = nn.Embedding(sum(sizes), width)
        for start, size in zip(starts.tolist(), sizes, strict=True):
            nn.init.xavier_uniform_(self.table.weight.data[start : start + size])

    def forward(self, features: Tensor) -> Tensor:
        return self.of_indicators(self.indicators(features))

    def indicators(self, features: Tensor) -> Tensor:
        """(n, features) integers → (n, values of all features): 1 for the values that they have."""
        weight = self.table.weight
        rows = features.to(torch.long) + self.offsets
        return weight.new_zeros(len(rows), len(weight)).scatter_(1, rows, 1.0)

    def of_indicators(self, indicators: Tensor) -> Tensor:
        """The same of :meth:`indicators`, which encoders of the same features can share."""
        return indicators @ self.table.weight


class GINLayer(nn.Module):
    """h_v ← MLP((1 + ε)·h_v + Σ over neighbours u of relu(h_u + bond_uv))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.bond_encoder = CategoricalEncoder(BOND_FEATURES, width)
        self.mlp = nn.Sequential(*_hidden_layer(width))

    def forward(self, h: Tensor, edge_index: Tensor, bonds: Tensor) -> Tensor:
        """New embeddings of the atoms, (atoms, width); ``bonds`` are indicators of the edges."""
        source, target = edge_index
        # index_select, since the gradient of h[source] sorts
        messages = functional.relu(
            h.index_select(0, source) + self.bond_encoder.of_indicators(bonds)
        )
        own = (1 + self.eps) * h
        result: Tensor = self.mlp(own.index_add(0, target, messages.to(own.dtype)))
        return result


class GINFeatures(nn.Module):
    """Embeddings of whole graphs: the mean over atoms after the last layer, (graphs, width).

    The virtual node hears from every atom of its graph and speaks to all of them.
    """

    def __init__(self, width: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.atom_encoder = CategoricalEncoder(ATOM_FEATURES, width)
        self.virtual_node = nn.Parameter(torch.zeros(1, width))
        self.virtual_mlps = nn.ModuleList(
            nn.Sequential(*_hidden_layer(width), nn.BatchNorm1d(width), nn.ReLU())
            for _ in range(depth - 1)
        )
        self.layers = nn.ModuleList([GINLayer(width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(depth)])
        self.dropout = dropout

    def forward(self, graphs: Any) -> Tensor:
        """(graphs, width), differentiable in everything but the graphs."""
        h = self.atom_encoder(graphs.x)
        virtual = self.virtual_node.expand(graphs.num_graphs, -1)
        first = cast(GINLayer, self.layers[0])
        bonds = first.bond_encoder.indicators(graphs.edge_attr)
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            h = h + virtual.index_select(0, graphs.batch)
            heard = virtual.index_add(0, graphs.batch, h.to(virtual.dtype))
            h = norm(layer(h, graphs.edge_index, bonds))
            if number < len(self.virtual_mlps):
                h = functional.relu(h)
                virtual = self._dropped(self.virtual_mlps[number](heard))
            h = self._dropped(h)
        ones = h.new_ones(len(h), 1)  # counting with bincount would wait for a GPU
        counts = sum_by_graph(ones, graphs.batch, graphs.num_graphs).clamp(min=1)
        mean = sum_by_graph(h, graphs.batch, graphs.num_graphs) / counts
        return mean.to(h.dtype)

    def _dropped(self, h: Tensor) -> Tensor:
        return functional.dropout(h, self.dropout, self.training)


def sum_by_graph(h: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Sums of the rows of h (atoms, width) that belong to the same graph, (graphs, width)."""
    return h.new_zeros(graphs, h.shape[1]).index_add(0, batch, h)


def _hidden_layer(width: int) -> list[nn.Module]:
    wide = 2 * width
    return [nn.Linear(width, wide), nn.BatchNorm1d(wide), nn.ReLU(), nn.Linear(wide, width)]


class GIN(Predictor):
    """Graph isomorphism network with a virtual node (Xu et al. 2019; Gilmer et al. 2017).

    The defaults are OGB's and WILDS's for OGB-MolPCBA. Inputs are several graphs as one, with
    torch-geometric's names: ``x`` (atoms, 9) and ``edge_attr`` (edges, 3) are OGB's categorical
    features, ``edge_index`` (2, edges), ``batch`` (atoms,) says which of ``num_graphs`` graphs an
    atom belongs to. ``outputs`` are logits per molecule; ``depth`` is the number of layers, at
    least 2.
    """

    input_kind = "graphs"

    def __init__(
        self,
        outputs: int,
        width: int = 300,
        depth: int = 5,
        dropout: float = 0.5,
        loss: str | Loss = "binary-cross-entropy",
    ) -> None:
        super().__init__(GINFeatures(width, depth, dropout), nn.Linear(width, outputs), loss)
