"""Small networks trained by gradients: all rows in each step, or mini-batches of domains.

Not by :class:`eqrm.training.Trainer`, which seeds the global generators, handles signals, copies
the rows of each batch, and knows neither weights of rows nor a penalty on weight matrices alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.linear_fits import Scaling
from eqrm.linear.solving.risk_functions import Array
from eqrm.objectives.base import Phase

STEPS_TOLD: ContextVar[Callable[[int, int], None] | None] = ContextVar("steps", default=None)
"""Called with the steps taken and all steps of a fit, now and then."""
TOLD_EVERY = 10


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    """Raise ``ValueError`` unless an array of a model file has this shape and finite floats."""
    if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(f"its {name!r} has the shape {array.shape}, and needs {shape}")


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network as arrays: weights (out, in) and biases (out,), with ReLU in between.

    Features are standardised by ``centre`` and ``spread`` (d,); outputs are multiplied by
    ``scale`` and moved by ``offset``, which are 1 and 0 for logits.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    centre: Array
    spread: Array
    offset: float = 0.0
    scale: float = 1.0

    def __call__(self, X: Array) -> Array:
        """Outputs (n, C) of features (n, d)."""
        values = (X - self.centre) / self.spread
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight.T + bias
            if place + 1 < len(self.weights):
                values = np.maximum(values, 0.0)
        return values if (self.offset, self.scale) == (0, 1) else self.offset + self.scale * values

    def check_shapes(self, features: int, outputs: int) -> None:
        """Raise ``ValueError`` unless the layers fit together, and to this many columns."""
        widths = [features, *(len(weight) for weight in self.weights)]
        layers = zip(self.weights, self.biases, pairwise(widths), strict=True)
        for weight, bias, (before, after) in layers:
            check_shape("weights", weight, (after, before))
            check_shape("biases", bias, (after,))
        check_shape("centre", self.centre, (features,))
        check_shape("spread", self.spread, (features,))
        if widths[-1] != outputs or not (self.spread > 0.0).all():
            raise ValueError(f"it has {widths[-1]} outputs, and needs {outputs}")
        if not np.isfinite([self.offset, self.scale]).all():
            raise ValueError("its target is not finite")


@dataclass(frozen=True, eq=False)
class Examples:
    """Standardised rows (n, d), targets, domain and factor of the loss of each row (n,).

    The mean of factor × loss over a domain is its weighted risk: a factor is 1 without weights,
    and w_i·n_e/Σw with them. Numbers to predict are standardised too, so that one learning rate
    suits all targets. ``classes`` is 0 for a regression.
    """

    rows: Tensor
    targets: Tensor
    ids: Tensor
    factors: Tensor
    domains: int
    classes: int
    scaling: Scaling
    offset: float
    scale: float

    @classmethod
    def of(cls, given: TrainingRows, classes: int) -> Examples:
        """From the rows that ``fit`` was given."""
        groups, weights = given.groups, given.sample_weight
        scaling = Scaling.of(given.X, weights, intercept=True)
        targets, offset, scale = given.y, 0.0, 1.0
        if not classes:
            offset = float(np.average(targets, weights=weights))
            scale = float(np.sqrt(np.average((targets - offset) ** 2, weights=weights))) or 1.0
            targets = (targets - offset) / scale
        return cls(
            torch.from_numpy(np.ascontiguousarray(scaling.rows(given.X)[:, :-1])),
            torch.from_numpy(targets),
            torch.from_numpy(groups.ids),
            torch.from_numpy(groups.row_weights(groups.counts.astype(np.float64), weights)),
            len(groups),
            classes,
            scaling,
            offset,
            scale,
        )

    @property
    def outputs(self) -> int:
        """Number of outputs of the network: 1, or K for more than two classes."""
        return self.classes if self.classes > 2 else 1

    def losses(self, network: nn.Module, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Factor × loss of some of the rows (None: all), and their domains."""
        x, y, factors, ids = (
            part if rows is None else part.index_select(0, rows)
            for part in (self.rows, self.targets, self.factors, self.ids)
        )
        outputs = network(x)
        if self.classes > 2:
            losses = functional.cross_entropy(outputs, y, reduction="none")
        elif self.classes == 2:
            losses = functional.softplus((1.0 - 2.0 * y) * outputs[:, 0])
        else:
            losses = (outputs[:, 0] - y) ** 2
        return factors * losses, ids

    def batches(
        self, domains: int | None, examples: int | None, random: np.random.RandomState
    ) -> Iterator[Tensor | None]:
        """The rows of each step, without end; None is all of them.

        No domain is repeated before all others have been used, nor is a row of a domain, as far as
        its number of rows allows: remembered risks are then younger than with domains drawn anew.
        """
        counts = torch.bincount(self.ids).tolist()
        some, most = min(domains or self.domains, self.domains), examples or max(counts)
        if some == self.domains and most >= max(counts):
            yield from repeat(None)
        # In numpy, whose slices take a tenth of the time of those of tensors.
        rows: list[NDArray[np.int64]]
        rows = [part.numpy() for part in torch.argsort(self.ids, stable=True).split(counts)]
        used, waiting = list(counts), list[int]()

        def next_rows(domain: int) -> NDArray[np.int64]:
            if used[domain] + most > counts[domain]:
                rows[domain] = rows[domain][random.permutation(counts[domain])]
                used[domain] = 0
            used[domain] += most
            return rows[domain][used[domain] - most : used[domain]]

        while True:
            if len(waiting) < some:
                left = set(waiting)  # they come last in the next round, not twice in a batch
                waiting += sorted(random.permutation(self.domains).tolist(), key=left.__contains__)
            chosen, waiting = waiting[:some], waiting[some:]
            yield torch.from_numpy(np.concatenate([next_rows(domain) for domain in chosen]))


def train_network(
    examples: Examples,
    network: nn.Sequential,
    phases: Iterable[Phase],
    batches: Iterator[Tensor | None],
    l2: float,
) -> Network:
    """Train the network, in place, on one phase after the other, with a fresh Adam for each."""
    penalised = [p for p in network.parameters() if p.ndim == 2]
    planned, tell, done = list(phases), STEPS_TOLD.get(), 0
    total = sum(phase.length for phase in planned)
    for phase in planned:
        optimizer = torch.optim.Adam(network.parameters(), lr=phase.rate())
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, phase.rate_factor)
        for _ in range(phase.length):
            value = phase.minimised(*examples.losses(network, next(batches)), examples.domains)
            shrinkage = l2 * torch.stack([p.square().sum() for p in penalised]).sum()
            optimizer.zero_grad()
            (value + shrinkage).backward()
            optimizer.step()
            schedule.step()
            done += 1
            if tell is not None and done % TOLD_EVERY == 0:
                tell(done, total)
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    return Network(
        tuple(layer.weight.detach().numpy().copy() for layer in layers),
        tuple(
            np.zeros(layer.out_features) if b is None else b.detach().numpy().copy()
            for layer, b in ((layer, layer.bias) for layer in layers)
        ),
        examples.scaling.centre,
        examples.scaling.spread,
        examples.offset,
        examples.scale,
    )


def new_network(widths: Sequence[int], intercept: bool, seed: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU in between; weights follow from the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for place, (width, after) in enumerate(pairwise(widths)):
        last = place == len(widths) - 2
        # Without nn.Linear's own initial weights, which would be drawn from torch's global state.
        layer = nn.utils.skip_init(
            nn.Linear, width, after, bias=intercept or not last, dtype=torch.float64
        )
        with torch.no_grad():
            reach = (6.0 / width) ** 0.5 if not last else 0.1 * (1.0 / width) ** 0.5
            layer.weight.uniform_(-reach, reach, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
        layers += [layer] if last else [layer, nn.ReLU()]
    return nn.Sequential(*layers)
