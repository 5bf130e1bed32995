"""MLDG: a gradient step on some domains must help on others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

import torch
from torch import Tensor
from torch.func import functional_call

from eqrm.checks import COUNT, FLAG, NON_NEGATIVE, POSITIVE, optional
from eqrm.objectives.base import LEARNING_RATE, Objective, OptimizerChoice, Update
from eqrm.objectives.batch import Batch, part_of
from eqrm.objectives.hyperparameters import ChoiceSpace, LogUniformSpace, hyperparameter
from eqrm.predictors.base import Predictor


@dataclass(eq=False, repr=False)
class MLDG(Objective):
    """Meta-learning domain generalisation (Li, Yang, Song & Hospedales 2018, Algorithm 1, eq. 3).

    The domains of a batch are split into meta-train and meta-test domains. With F the mean risk
    of the former and G of the latter, it minimises F(θ) + β·G(θ − a∇F(θ)), differentiated through
    the inner step (a Hessian-vector product); ``first_order`` takes ∇F as a constant instead.

    The paper draws one split per step. By default the random splits of one step go round a
    circle: m splits, each domain held out equally often, which has the same expectation, less
    variance, and makes β = 0 exactly ERM. ``num_splits=1`` is the paper's; then β = 0 is the ERM
    of the meta-train domains. At least one domain stays in meta-train, so with two domains
    one is held out even when ``num_meta_test`` is 2.

    DomainBed is first order, takes one domain against one other, and makes the inner step with
    Adam at the run's learning rate.
    """

    name = "mldg"
    min_domains = 2
    beta: float = hyperparameter(
        1.0, "weight β of the meta-test risk", NON_NEGATIVE, LogUniformSpace(10, -1, 1)
    )
    num_meta_test: int = hyperparameter(
        2, "domains held out in a split", COUNT, ChoiceSpace((1, 2))
    )
    inner_learning_rate: float = hyperparameter(5e-4, "size a of the inner step", POSITIVE)
    num_splits: int | None = hyperparameter(
        None, "splits per step; None: one per domain", optional(COUNT)
    )
    first_order: bool = hyperparameter(
        False, "take the inner gradient as a constant (cheaper)", FLAG
    )

    def splits(self, domains: list[int]) -> list[tuple[list[int], list[int]]]:
        """Random (meta-train, meta-test) splits: windows that go round a shuffled circle."""
        m = len(domains)
        held_out = min(self.num_meta_test, m - 1)
        circle = [domains[i] for i in torch.randperm(m).tolist()]
        turns = [circle[i:] + circle[:i] for i in range(min(self.num_splits or m, m))]
        return [(turn[held_out:], turn[:held_out]) for turn in turns]

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        domains = batch.by_domain()
        self.require_domains(len(domains), "the batch")
        losses = predictor.losses(predictor(batch.x, batch.domains), batch.y)
        risks = {e: losses[rows].mean() for e, rows in batch.rows_by_domain().items()}
        splits = self.splits(list(domains))
        terms = []
        for train, test in splits:
            inner = torch.stack([risks[e] for e in train]).mean()
            terms.append(inner)
            if self.beta > 0:
                stepped = self.after_inner_step(inner, predictor)
                outer = [risk_under(domains[e], predictor, stepped) for e in test]
                terms.append(self.beta * torch.stack(outer).mean())
        loss = torch.stack(terms).sum() / len(splits)
        yield Update(loss, tuple(predictor.parameters()))

    def after_inner_step(self, risk: Tensor, predictor: Predictor) -> dict[str, Tensor]:
        """θ − a∇F(θ), still a function of θ."""
        gradients = _gradients(risk, predictor, differentiable=not self.first_order)
        return {name: p - self.inner_learning_rate * g for name, p, g in gradients}


def _gradients(
    risk: Tensor, predictor: Predictor, differentiable: bool
) -> list[tuple[str, Tensor, Tensor]]:
    """The name of each parameter that is trained, the parameter, and the gradient of a risk."""
    named = [(name, p) for name, p in predictor.named_parameters() if p.requires_grad]
    gradients = torch.autograd.grad(
        risk,
        [p for _, p in named],
        create_graph=differentiable,
        retain_graph=True,
        materialize_grads=True,
    )
    return [(name, p, g) for (name, p), g in zip(named, gradients, strict=True)]


def risk_under(batch: Batch, predictor: Predictor, parameters: dict[str, Tensor]) -> Tensor:
    """The risk of one domain under other parameters; buffers (batch norm's) stay untouched."""
    buffers = {name: buffer.clone() for name, buffer in predictor.named_buffers()}
    outputs = functional_call(predictor, {**parameters, **buffers}, (batch.x, batch.domains))
    return predictor.losses(outputs, batch.y).mean()


@dataclass(eq=False, repr=False)
class DomainBedMLDG(MLDG):
    """MLDG of first order with pairs of domains (Li, Yang, Song & Hospedales 2018).

    The domains of a batch are split once; each meta-train domain i is paired with a meta-test
    domain j in turn. The gradient is Σ (∇R_i(θ) + β·∇R_j(θ_i))/m over the pairs, divided by the
    number m of all domains, where θ_i is θ after one step of a fresh Adam on R_i, with the run's
    learning rate and weight decay. The paper averages over all domains of each part, takes a
    plain gradient step and differentiates through it.

    With as many meta-test domains as there are domains DomainBed takes no step at all; here at
    least one domain stays in meta-train.
    """

    preset = "domainbed"
    inner_learning_rate: float | None = hyperparameter(  # type: ignore[assignment]
        None,
        "size of the inner step of Adam; None: the learning rate of the run",
        optional(POSITIVE),
    )
    run_learning_rate: float = field(default=LEARNING_RATE, init=False)
    weight_decay: float = field(default=0.0, init=False)

    def predictor_optimizer(self, choice: OptimizerChoice, learning_rate: float) -> OptimizerChoice:
        """The run's; the inner step has the same learning rate and weight decay."""
        self.run_learning_rate, self.weight_decay = learning_rate, choice.weight_decay
        return choice

    def pairs(self, domains: list[int]) -> list[tuple[int, int]]:
        """(meta-train, meta-test) pairs of domains, from one random split."""
        shuffled = [domains[i] for i in torch.randperm(len(domains)).tolist()]
        kept = len(domains) - min(self.num_meta_test, len(domains) - 1)
        return list(zip(shuffled[:kept], cycle(shuffled[kept:]), strict=False))

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        parts = batch.by_domain()
        self.require_domains(len(parts), "the batch")
        terms = []
        for i, j in self.pairs(list(parts)):
            first = slice(min(len(parts[i].y), len(parts[j].y)))
            own: dict[str, Tensor] = dict(predictor.named_parameters())
            inner = risk_under(part_of(parts[i], first), predictor, own)
            stepped = self.after_inner_step(inner, predictor)
            outer = risk_under(part_of(parts[j], first), predictor, stepped)
            terms.append(inner + self.beta * outer)
        yield Update(torch.stack(terms).sum() / len(parts), tuple(predictor.parameters()))

    def after_inner_step(self, risk: Tensor, predictor: Predictor) -> dict[str, Tensor]:
        """θ after the first step of Adam, a·g/(|g| + 10⁻⁸), which counts as a constant."""
        rate = self.inner_learning_rate or self.run_learning_rate
        stepped = {}
        for name, p, gradient in _gradients(risk, predictor, differentiable=False):
            g = gradient + self.weight_decay * p.detach()
            stepped[name] = p - rate * g / (g.abs() + 1e-8)
        return stepped
