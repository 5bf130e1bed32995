"""Graphs as plain tensors: many of them stored end to end, and batches of some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from eqrm.errors import DomainDataError


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Several graphs as one, their nodes one after another, with torch-geometric's names.

    ``x`` (nodes, features) and ``edge_attr`` (edges, features) are categories, ``edge_index`` (2,
    edges) goes from node to node, in both directions where an edge has none, and ``batch`` (nodes,)
    says which graph a node belongs to.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor
    num_graphs: int

    def __len__(self) -> int:
        return self.num_graphs

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same graphs on another device."""
        moved: Any = {n: v.to(device) for n, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class Graphs:
    """n graphs end to end, small integers kept small. ``graphs[rows]`` is a :class:`GraphBatch`.

    Nodes of ``edge_index`` are counted from 0 within their graph; ``node_ends`` and ``edge_ends``
    (n,) are where the nodes and the edges of each graph end.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    node_ends: Tensor
    edge_ends: Tensor

    def __post_init__(self) -> None:
        nodes = self.node_ends.diff(prepend=self.node_ends.new_zeros(1))
        edges = self.edge_ends.diff(prepend=self.edge_ends.new_zeros(1))
        stated = len(nodes), int(nodes.sum()), int(edges.sum()), (2, int(edges.sum()))
        held = len(edges), len(self.x), len(self.edge_attr), tuple(self.edge_index.shape)
        if stated != held:
            raise DomainDataError(
                "The numbers of graphs, nodes and edges and the shape of edge_index must be "
                f"{stated}, got {held}."
            )
        if bool((nodes < 1).any()) or bool((edges < 0).any()):
            raise DomainDataError("Every graph needs a node, and no number may be negative.")
        # An edge to a node of another graph would join two molecules.
        limit = torch.repeat_interleave(nodes, edges).to(self.edge_index.device)
        wrong = ((self.edge_index < 0) | (self.edge_index >= limit)).any(0)
        if bool(wrong.any()):
            edge = int(torch.nonzero(wrong)[0])
            graph = int(torch.searchsorted(self.edge_ends, edge, right=True))
            raise DomainDataError(
                f"Graph {graph} has {int(nodes[graph])} nodes, but an edge "
                f"{tuple(self.edge_index[:, edge].tolist())}."
            )

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Graphs:
        """From the tensors in ``vars(graphs)``; other entries are ignored."""
        return cls(**{each.name: tensors[each.name] for each in fields(cls)})

    def __len__(self) -> int:
        return len(self.node_ends)

    def __getitem__(self, rows: Tensor) -> GraphBatch:
        """The graphs at these positions, in this order."""
        rows = rows.cpu()  # where each graph lies is known on the CPU: no wait for a device
        node_rows, nodes = _parts(self.node_ends, rows)
        edge_rows, edges = _parts(self.edge_ends, rows)
        numbers = torch.arange(len(rows))
        first_node = torch.repeat_interleave(nodes.cumsum(0) - nodes, edges)
        device = self.x.device
        edge_rows = _sent(edge_rows, device)
        return GraphBatch(
            x=self.x[_sent(node_rows, device)].long(),
            edge_index=self.edge_index[:, edge_rows].long() + _sent(first_node, device),
            edge_attr=self.edge_attr[edge_rows].long(),
            batch=_sent(torch.repeat_interleave(numbers, nodes), device),
            num_graphs=len(rows),
        )

    def to(self, device: torch.device | str) -> Graphs:
        """Nodes and edges on another device; where each graph lies stays on the CPU."""
        moved = {n: getattr(self, n).to(device) for n in ("x", "edge_index", "edge_attr")}
        return replace(self, **moved)


def _sent(values: Tensor, device: torch.device) -> Tensor:
    """Values from the CPU, without waiting for what a GPU is doing."""
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def _parts(ends: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of the parts of these graphs, one after another, and how many each has."""
    starts = torch.where(rows > 0, ends[(rows - 1).clamp(min=0)], 0)
    sizes = ends[rows] - starts
    shift = starts - (sizes.cumsum(0) - sizes)
    return torch.arange(int(sizes.sum())) + torch.repeat_interleave(shift, sizes), sizes
