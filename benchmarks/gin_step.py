"""A step of the GIN for molecules, beside the same network made of torch-geometric's parts.

    PYTHONPATH=src python3 benchmarks/gin_step.py --output DIR

Prints Markdown with the name of the device and writes it to DIR/gin_step.md. The networks have the
same layers and the same number of weights, and take turns on the same batch: forward, loss,
backward, Adam. torch-geometric's has GINEConv and its pooling, once with an embedding for each
feature of atoms and bonds, as OGB's example has it, and once with this package's encoder. The bound
is against the faster of the two. ``--device cpu`` takes a smaller batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from tables import gpu_options, markdown, measured_on
from timing import Budget, interleaved
from torch import Tensor, nn
from torch.nn import functional

from eqrm.data.graphs import GraphBatch
from eqrm.predictors.base import binary_cross_entropy
from eqrm.predictors.gin import ATOM_FEATURES, BOND_FEATURES, GIN, CategoricalEncoder

WIDTH, DEPTH, DROPOUT, TASKS = 300, 5, 0.5, 17
MOLECULES, ATOMS, RINGS = 512, (12, 36), 3
MOST_RATIO = 1.0
OURS = "eqrm"


def random_molecules(number: int, device: str) -> tuple[GraphBatch, Tensor]:
    """Chains of atoms with a few rings, as large as molecules of HIV and MUV; with labels."""
    draw = torch.Generator().manual_seed(0)
    sizes = torch.randint(*ATOMS, (number,), generator=draw)
    edges, first = [], 0
    for size in sizes.tolist():
        chain = torch.arange(size - 1)
        ring = torch.randint(0, size, (2, RINGS), generator=draw)
        pairs = torch.cat([torch.stack([chain, chain + 1]), ring], dim=1) + first
        edges.append(torch.cat([pairs, pairs.flip(0)], dim=1))
        first += size
    edge_index = torch.cat(edges, dim=1)
    x, edge_attr = (
        torch.stack([torch.randint(0, n, (rows,), generator=draw) for n in features], dim=1)
        for features, rows in (
            (ATOM_FEATURES, int(sizes.sum())),
            (BOND_FEATURES, edge_index.shape[1]),
        )
    )
    batch = torch.repeat_interleave(torch.arange(number), sizes)
    y = torch.randint(0, 2, (number, TASKS), generator=draw).float()
    y[torch.rand(y.shape, generator=draw) < 0.8] = torch.nan
    y[:, 0] = 0.0  # every molecule has a label
    return GraphBatch(x, edge_index, edge_attr, batch, number).to(device), y.to(device)


class Embeddings(nn.Module):
    """The sum of an embedding of each feature, one after the other."""

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.each = nn.ModuleList([nn.Embedding(size, width) for size in sizes])

    def forward(self, features: Tensor) -> Tensor:
        """(n, features) integers → (n, width)."""
        found = self.each[0](features[:, 0])
        for number in range(1, len(self.each)):
            found = found + self.each[number](features[:, number])
        return found


class OfGeometric(nn.Module):
    """The network of :class:`~eqrm.predictors.gin.GIN` made of torch-geometric's parts."""

    def __init__(self, encoder: Callable[[tuple[int, ...], int], nn.Module]) -> None:
        from torch_geometric.nn import GINEConv

        super().__init__()
        width = WIDTH
        self.atoms = encoder(ATOM_FEATURES, width)
        self.bonds = nn.ModuleList([encoder(BOND_FEATURES, width) for _ in range(DEPTH)])
        self.layers = nn.ModuleList(
            [GINEConv(self._mlp(norms=1), train_eps=True) for _ in range(DEPTH)]
        )
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(DEPTH)])
        self.virtual = nn.Parameter(torch.zeros(1, width))
        self.virtual_mlps = nn.ModuleList([self._mlp(norms=2) for _ in range(DEPTH - 1)])
        self.head = nn.Linear(width, TASKS)

    def _mlp(self, norms: int) -> nn.Sequential:
        inner = [nn.Linear(WIDTH, 2 * WIDTH), nn.BatchNorm1d(2 * WIDTH), nn.ReLU()]
        outer = [nn.Linear(2 * WIDTH, WIDTH)]
        return nn.Sequential(
            *inner, *outer, *([nn.BatchNorm1d(WIDTH), nn.ReLU()] if norms == 2 else [])
        )

    def forward(self, graphs: GraphBatch) -> Tensor:
        """(graphs, tasks)."""
        from torch_geometric.nn import global_add_pool, global_mean_pool

        h = self.atoms(graphs.x)
        virtual = self.virtual.expand(graphs.num_graphs, -1)
        for number, layer in enumerate(self.layers):
            h = h + virtual[graphs.batch]
            heard = global_add_pool(h, graphs.batch, graphs.num_graphs) + virtual
            h = self.norms[number](
                layer(h, graphs.edge_index, self.bonds[number](graphs.edge_attr))
            )
            if number < DEPTH - 1:
                h = functional.relu(h)
                virtual = functional.dropout(self.virtual_mlps[number](heard), DROPOUT)
            h = functional.dropout(h, DROPOUT)
        found: Tensor = self.head(global_mean_pool(h, graphs.batch, graphs.num_graphs))
        return found


def step_of(network: nn.Module, graphs: GraphBatch, y: Tensor) -> Callable[[], None]:
    """Forward, loss, backward and Adam."""
    network = network.to(y.device).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=y.is_cuda)

    def step() -> None:
        optimizer.zero_grad()
        binary_cross_entropy(network(graphs), y).mean().backward()
        optimizer.step()

    return step


def networks() -> dict[str, nn.Module]:
    """By name."""
    return {
        OURS: GIN(TASKS, WIDTH, DEPTH, DROPOUT),
        "torch-geometric": OfGeometric(Embeddings),
        "torch-geometric with eqrm's encoder": OfGeometric(CategoricalEncoder),
    }


def main(arguments: list[str]) -> int:
    """Measure, print, store; 1 when the bound does not hold."""
    options = gpu_options(arguments, __doc__)
    if options is None:
        return 2
    on_gpu = options.device != "cpu"
    number = MOLECULES if on_gpu else 32
    graphs, y = random_molecules(number, options.device)
    made = networks()
    weights = {sum(p.numel() for p in network.parameters()) for network in made.values()}
    if len(weights) != 1:
        raise SystemExit(f"The networks have different numbers of weights: {weights}")
    steps = {name: step_of(network, graphs, y) for name, network in made.items()}
    budget = Budget(rounds=15, burst=0.1, longest=15.0, pause=0.0 if on_gpu else 0.05)
    timings = interleaved(steps, budget, torch.cuda.synchronize if on_gpu else None)
    rows = [[name, f"{timing.milliseconds:.2f}"] for name, timing in timings.items()]
    title = f"a step of {number} molecules, {len(graphs.x):,} atoms, width {WIDTH}, depth {DEPTH}"
    ours = timings.pop(OURS)
    ratio = max(ours.times(each) for each in timings.values())
    word = "PASS" if ratio <= MOST_RATIO else "FAIL"
    page = f"{measured_on(options.device)}\n\n{markdown([title, 'ms'], rows)}\n\n"
    page += f"{word} eqrm / the faster of torch-geometric's {ratio:.2f} (at most {MOST_RATIO:g})"
    print(page)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "gin_step.md").write_text(page + "\n")
    return 0 if ratio <= MOST_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
