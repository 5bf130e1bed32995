"""MLDG: a gradient step on some domains must help on others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from eqrm.checks import COUNT, FLAG, NON_NEGATIVE, POSITIVE, optional
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.batch import Batch
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
    Adam at the run's learning rate. β = 1, searched over 10^U(−1, 1); 1 or 2 meta-test domains.

    >>> MLDG(beta=0.5, first_order=True).num_meta_test
    2
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
        """One update of the whole predictor."""
        domains = batch.by_domain()
        self.require_domains(len(domains), "the batch")
        outputs = predictor(batch.x, batch.domains)
        losses = predictor.losses(outputs, batch.y)
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
        named = {name: p for name, p in predictor.named_parameters() if p.requires_grad}
        gradients = torch.autograd.grad(
            risk,
            tuple(named.values()),
            create_graph=not self.first_order,
            retain_graph=True,
            materialize_grads=True,
        )
        return {
            name: p - self.inner_learning_rate * gradient
            for (name, p), gradient in zip(named.items(), gradients, strict=True)
        }


def risk_under(batch: Batch, predictor: Predictor, parameters: dict[str, Tensor]) -> Tensor:
    """The risk of one domain under other parameters; buffers (batch norm's) stay untouched."""
    buffers = {name: buffer.clone() for name, buffer in predictor.named_buffers()}
    outputs = functional_call(predictor, {**parameters, **buffers}, (batch.x, batch.domains))
    return predictor.losses(outputs, batch.y).mean()
