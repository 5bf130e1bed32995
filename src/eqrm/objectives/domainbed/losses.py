"""DomainBed's losses: EQRM, IRM, IGA, CORAL, Mixup, MLDG, RSC.

Each class makes the update that DomainBed (Gulrajani & Lopez-Paz 2021, and the code beside it)
makes on the same network and batch. Its docstring says where that code differs from the paper of
the method, and from our class of the same name. ERM, GroupDRO, VREx, SD and MMD are the same in
both. DomainBed's batches hold equally many examples of every training domain, for which the mean
over examples and the mean over domains are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from eqrm.checks import FLAG, POSITIVE, optional
from eqrm.distributions.bandwidths import Bandwidth, BandwidthFunction
from eqrm.objectives.alignment import CORAL
from eqrm.objectives.base import LEARNING_RATE, Update
from eqrm.objectives.batch import Batch
from eqrm.objectives.hyperparameters import hyperparameter
from eqrm.objectives.meta import MLDG, risk_under
from eqrm.objectives.optimizers import OptimizerChoice
from eqrm.objectives.penalties import IGA, IRM
from eqrm.objectives.perturbation import RSC, Mixup, mixable
from eqrm.objectives.risk_based import EQRM
from eqrm.predictors.base import Predictor


@dataclass(eq=False, repr=False)
class DomainBedEQRM(EQRM):
    """EQRM as published (Eastwood et al. 2022): the gradient through bisection, and h = 1.06·….

    The published code back-propagates through the steps of a bisection, in which only the two
    ends depend on the risks. The result is not the gradient of the quantile (:class:`eqrm.KDE`
    describes it), and the rule for the bandwidth rounds (4/3)^⅕ to 1.06.

    In DomainBed's random searches the length of the burn-in is not an integer and is compared by
    ==, so Adam is not reset and the learning rate of EQRM is never used, which the paper does not
    say. Here the burn-in is an integer, as DomainBed's default (2500) is, and the switch happens.

    >>> DomainBedEQRM(alpha=0.9).bandwidth
    'gaussian-optimal-1.06'
    """

    preset = "domainbed"
    bandwidth: str | float | Bandwidth | BandwidthFunction = hyperparameter(
        "gaussian-optimal-1.06", "the rule for the KDE's bandwidth"
    )
    options: Mapping[str, Any] | None = field(
        default_factory=lambda: {"gradient": "bisection"}, kw_only=True
    )


@dataclass(eq=False, repr=False)
class DomainBedIRM(IRM):
    """IRM with the product of the gradients of two halves (Arjovsky et al. 2019, appendix D).

    The halves are every other example of a domain's batch. The paper's own experiments square
    the gradient of the whole batch. DomainBed's weight is 1, not 0, before the annealing ends.

    >>> DomainBedIRM().unbiased
    True
    """

    preset = "domainbed"
    unbiased: bool = hyperparameter(
        True, "estimate each square from two halves of the domain's examples", FLAG
    )


@dataclass(eq=False, repr=False)
class DomainBedIGA(IGA):
    """IGA with a sum over domains in the penalty (Koyama & Yamaguchi 2020 have their mean).

    >>> DomainBedIGA().penalty_weight
    1000.0
    """

    preset = "domainbed"

    def penalty(self, risks: list[Tensor], parameters: tuple[Tensor, ...]) -> Tensor:
        """Σ_e ‖∇R_e − ∇R̄‖²."""
        return len(risks) * super().penalty(risks, parameters)


@dataclass(eq=False, repr=False)
class DomainBedCORAL(CORAL):
    """CORAL with the means of the features, and without the factor ¼ (Sun & Saenko 2016).

    The distance is mean (C_i − C_j)² + mean (μ_i − μ_j)², over the entries of covariances and
    means; the paper has the first term, divided by 4.

    >>> DomainBedCORAL().match_means
    True
    """

    preset = "domainbed"
    match_means: bool = hyperparameter(
        True, "compare the features' means too, as DomainBed does", FLAG
    )

    def distance(self, features: Sequence[Tensor]) -> Tensor:
        """The mean over pairs of ‖C_i − C_j‖²_F/d² + ‖μ_i − μ_j‖²/d."""
        return 4 * super().distance(features)


@dataclass(eq=False, repr=False)
class DomainBedMixup(Mixup):
    """Mixup (Zhang et al. 2018) of two domains' examples in their order.

    Pairs of domains are a random circle, with one share per pair; the larger batch of a pair is
    cut to the size of the smaller. The paper has one shuffled batch and no domains.

    >>> DomainBedMixup().concentration
    0.2
    """

    preset = "domainbed"

    def pairs(self, batch: Batch) -> list[tuple[Tensor, Tensor, float]]:
        """For each pair of domains the rows of both, and the share of the first."""
        rows = list(batch.rows_by_domain().values())
        self.require_domains(len(rows), "the batch")
        share = torch.distributions.Beta(self.concentration, self.concentration)
        circle = torch.randperm(len(rows)).tolist()
        found = []
        for here, there in zip(circle, circle[1:] + circle[:1], strict=True):
            size = min(len(rows[here]), len(rows[there]))
            found.append((rows[here][:size], rows[there][:size], float(share.sample())))
        return found

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update of the whole predictor, on mixed examples only."""
        x, pairs = mixable(batch.x), self.pairs(batch)
        terms = []
        for first, second, share in pairs:
            mixed = share * x[first] + (1 - share) * x[second]
            outputs = predictor(mixed, batch.domains[first])
            terms.append(share * predictor.losses(outputs, batch.y[first]).mean())
            terms.append((1 - share) * predictor.losses(outputs, batch.y[second]).mean())
        yield Update(torch.stack(terms).sum() / len(pairs), tuple(predictor.parameters()))


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

    >>> DomainBedMLDG().num_meta_test
    2
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
        """One update of the whole predictor."""
        parts = batch.by_domain()
        self.require_domains(len(parts), "the batch")
        terms = []
        for i, j in self.pairs(list(parts)):
            size = min(len(parts[i].y), len(parts[j].y))
            inner = risk_under(
                _first(parts[i], size), predictor, dict(predictor.named_parameters())
            )
            stepped = self.after_inner_step(inner, predictor)
            outer = risk_under(_first(parts[j], size), predictor, stepped)
            terms.append(inner + self.beta * outer)
        yield Update(torch.stack(terms).sum() / len(parts), tuple(predictor.parameters()))

    def after_inner_step(self, risk: Tensor, predictor: Predictor) -> dict[str, Tensor]:
        """θ after the first step of Adam, a·g/(|g| + 10⁻⁸), which counts as a constant."""
        named = {name: p for name, p in predictor.named_parameters() if p.requires_grad}
        gradients = torch.autograd.grad(
            risk, tuple(named.values()), retain_graph=True, materialize_grads=True
        )
        rate = self.inner_learning_rate or self.run_learning_rate
        stepped = {}
        for (name, p), gradient in zip(named.items(), gradients, strict=True):
            g = gradient + self.weight_decay * p.detach()
            stepped[name] = p - rate * g / (g.abs() + 1e-8)
        return stepped


def _first(batch: Batch, size: int) -> Batch:
    return Batch(
        batch.x[:size], batch.y[:size], batch.domains[:size], batch.num_domains, batch.names
    )


@dataclass(eq=False, repr=False)
class DomainBedRSC(RSC):
    """RSC with percentiles (Huang, Wang, Xing & Huang 2020, eq. 1–5).

    What is not below the percentile 100·(1 − share) of its row is muted, with percentiles
    interpolated between values: at least one feature and one example, also at a share of 0. The
    paper mutes a number of features that is the share of all, and alternates between muting
    whole channels and places, which DomainBed's vectors of features do not have.

    >>> DomainBedRSC(feature_drop=0.5).example_drop
    0.3333333333333333
    """

    preset = "domainbed"

    def kept(self, values: Tensor, share: float) -> Tensor:
        """1 below the percentile of each row, else 0."""
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        limit = torch.quantile(wide, 1 - share, dim=1, keepdim=True)
        return (wide < limit).to(values.dtype)
