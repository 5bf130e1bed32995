"""Small networks trained by gradients: all rows in each step, or mini-batches of domains.

Not by :class:`eqrm.training.Trainer`, which seeds the global generators, handles signals, copies
the rows of each batch, and knows neither weights of rows nor a penalty on weight matrices alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.nn import functional

from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.goal import Goal
from eqrm.estimators.linear_fits import Scaling
from eqrm.estimators.network import STEPS_TOLD, Network
from eqrm.objectives.base import Phase
from eqrm.objectives.risk_based import ERM
from eqrm.objectives.risk_memory import RiskMemory

TOLD_EVERY = 10


def train_each(settings: Any, models: Sequence[tuple[Any, Goal]], rows: TrainingRows) -> None:
    """Adam on the mean risk first, then on the goal, with cosine decay, for one goal after another.

    ``settings`` is the estimator with the parameters that the ``models`` share. Mini-batches hold
    some of the domains; the quantile is still over all of them, by a memory of each domain's
    latest risk.
    """
    examples = Examples.of(rows, len(getattr(settings, "classes_", ())))
    random = check_random_state(settings.random_state)
    hidden = settings.hidden if settings.model == "mlp" else ()
    widths = [rows.X.shape[1], *hidden, examples.outputs]
    network = new_network(widths, bool(settings.fit_intercept), random.randint(2**31 - 1))
    batches = examples.batches(settings.domains_per_batch, settings.examples_per_domain, random)
    erm_steps = settings.erm_steps
    for model, goal in models:
        memory = None
        if settings.domains_per_batch is not None and goal.level is not None:
            # Few rows measure a risk with noise, which averaging over visits removes.
            averaging = 1.0 if settings.examples_per_domain is None else 0.3
            memory = RiskMemory(examples.domains, averaging)
        objective = goal.objective(memory)
        objective.watches_batches &= settings.examples_per_domain is not None
        stretches = ((ERM(), erm_steps), (objective, settings.steps))
        rate = float(settings.learning_rate)
        phases = [Phase(o, n, rate, "cosine") for o, n in stretches if n]
        model._network = train_network(examples, network, phases, batches, float(settings.l2))
        model.n_iter_ = settings.erm_steps + settings.steps
        model.optimality_ = None
        model.converged_ = True  # a fixed number of steps has no other way to end
        erm_steps = 0  # later levels start from the network of the one before


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
