"""Features that do not tell the domains apart: DANN and CDANN.

A discriminator learns to name the domain from the features; the featurizer learns to defeat it
through a gradient that is reversed on its way back (Ganin et al. 2016, section 4.2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from eqrm.checks import COUNT, FRACTION, NON_NEGATIVE, POSITIVE, number, optional
from eqrm.errors import DomainDataError
from eqrm.objectives.base import Objective, OptimizerChoice, OptimizerSettings, Update
from eqrm.objectives.batch import Batch, mean_risk
from eqrm.objectives.hyperparameters import ChoiceSpace, LogUniformSpace, hyperparameter
from eqrm.predictors.base import Predictor, input_size, layers, output_size


def reverse_gradient(x: Tensor, strength: float = 1.0) -> Tensor:
    """x itself, whose gradient is multiplied by −strength (Ganin et al. 2016, eq. 16–17)."""
    reversed_ = x.view_as(x)
    if x.requires_grad:
        reversed_.register_hook(lambda slopes: -strength * slopes)
    return reversed_


@dataclass(eq=False, repr=False)
class DomainAdversary(Objective):
    """What DANN and CDANN share: ``discriminator_steps`` discriminator updates, then one of all.

    The last update minimises mean_e[R_e] + L_d with the features' gradient of L_d reversed, so
    the predictor descends mean_e[R_e] − λL_d. Ganin et al. update predictor and discriminator at
    once from one pass; here the discriminator goes first, because each has its own optimizer.
    DomainBed spends a whole training step, with its own batch, on each update of either, so its
    5,001 steps hold 2,500 predictor updates; it also lets the predictor ascend the gradient
    penalty, which here concerns the discriminator alone.
    """

    min_domains = 2
    reversal_strength: float = hyperparameter(
        1.0, "weight λ of the reversed gradient", NON_NEGATIVE, LogUniformSpace(10, -2, 2)
    )
    discriminator_steps: int = hyperparameter(
        1,
        "updates of the discriminator before each update of the predictor",
        COUNT,
        LogUniformSpace(2, 0, 3, integer=True),
    )
    gradient_penalty: float = hyperparameter(
        0.0,
        "weight of the discriminator's squared gradient in its inputs",
        NON_NEGATIVE,
        LogUniformSpace(10, -2, 1),
    )
    discriminator_learning_rate: float | None = hyperparameter(
        None, "None: the predictor's", optional(POSITIVE), LogUniformSpace(10, -5, -3.5)
    )
    discriminator_weight_decay: float = hyperparameter(
        0.0, "weight decay of the discriminator", NON_NEGATIVE, LogUniformSpace(10, -6, -2)
    )
    beta1: float = hyperparameter(
        0.5,
        "Adam's first-moment decay for the discriminator",
        number(0, below=1),
        ChoiceSpace((0.0, 0.5)),
    )
    width: int = hyperparameter(
        256, "units of a hidden layer", COUNT, LogUniformSpace(2, 6, 10, integer=True)
    )
    depth: int = hyperparameter(
        3, "linear layers of the discriminator", COUNT, ChoiceSpace((3, 4, 5))
    )
    dropout: float = hyperparameter(
        0.0, "dropout in the discriminator", FRACTION, ChoiceSpace((0.0, 0.1, 0.5))
    )

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        super().prepare(predictor, num_domains)
        sizes = [input_size(predictor.head), *[self.width] * (self.depth - 1), num_domains]
        where = next(predictor.parameters())
        self.discriminator = layers(*sizes, dropout=self.dropout).to(where)
        return predictor

    def optimizer_settings(self, predictor: Predictor) -> Mapping[str, OptimizerSettings]:
        """Adam for the discriminator, with DomainBed's β = (beta1, .9)."""
        decay, rate = self.discriminator_weight_decay, self.discriminator_learning_rate
        adam = OptimizerChoice(weight_decay=decay, betas=(self.beta1, 0.9))
        return {"discriminator": OptimizerSettings(tuple(self.parameters()), rate, adam)}

    @abstractmethod
    def discriminator_inputs(self, features: Tensor, y: Tensor) -> Tensor:
        """What the discriminator sees, (n, d)."""

    @abstractmethod
    def example_weights(self, batch: Batch) -> Tensor:
        """How much each example counts in the discriminator's loss, (n,), summing to 1."""

    def discriminator_loss(self, features: Tensor, batch: Batch, penalise: bool) -> Tensor:
        """Cross-entropy of the discriminator's guesses, and its gradient penalty if asked."""
        inputs = self.discriminator_inputs(features.flatten(1), batch.y)
        if penalise and not inputs.requires_grad:
            inputs.requires_grad_()
        losses = functional.cross_entropy(
            self.discriminator(inputs), batch.domains, reduction="none"
        )
        loss = (self.example_weights(batch).to(losses.dtype) * losses).sum()
        if penalise:
            (slope,) = torch.autograd.grad(losses.sum(), inputs, create_graph=True)
            loss = loss + self.gradient_penalty * slope.square().sum(dim=1).mean()
        return loss

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        self.require_domains(len(batch.rows_by_domain()), "the batch")
        for _ in range(self.discriminator_steps):
            with torch.no_grad():
                seen = predictor.features(batch.x)
            loss = self.discriminator_loss(seen, batch, penalise=self.gradient_penalty > 0)
            yield Update(loss, tuple(self.parameters()), "discriminator")
        features = predictor.features(batch.x)
        risk = mean_risk(predictor.losses(predictor.head(features), batch.y), batch)
        hidden = reverse_gradient(features, self.reversal_strength)
        loss = risk + self.discriminator_loss(hidden, batch, penalise=False)
        yield Update(loss, tuple(predictor.parameters()))


class DANN(DomainAdversary):
    """Domain-adversarial training (Ganin et al. 2016, eq. 9–10 and 13–15), with many domains.

    The discriminator names one of m domains instead of source or target, each domain counting
    once. The features end up with the same distribution in every domain, whatever y does.
    """

    name = "dann"

    def discriminator_inputs(self, features: Tensor, y: Tensor) -> Tensor:
        return features

    def example_weights(self, batch: Batch) -> Tensor:
        """1/(m·n_e): domains count equally, examples within a domain too."""
        return _balanced_weights(batch.domains)


class CDANN(DomainAdversary):
    """Conditional adversarial training (Li, Tian, Gong et al. 2018, CIDDG).

    The features must not tell the domain *given the class*, so domains may differ in how often
    each class occurs. The discriminator is told the class, and examples are weighted so that
    every domain has the same class prior (their class-prior normalisation: 1/P̂_e(y) within each
    domain e, over the classes it has in the batch).

    The paper trains one discriminator per class; like DomainBed, this is one discriminator that
    adds a learned embedding of the class to the features. DomainBed normalises class priors over
    the batch as a whole. Needs integer classes as targets.
    """

    name = "cdann"

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        predictor = super().prepare(predictor, num_domains)
        classes = max(2, output_size(predictor.head))  # one logit stands for two classes
        embeddings = nn.Embedding(classes, input_size(predictor.head))
        self.class_embeddings = embeddings.to(next(predictor.parameters()))
        return predictor

    def discriminator_inputs(self, features: Tensor, y: Tensor) -> Tensor:
        embeddings: Tensor = self.class_embeddings(integer_classes(y))
        return features + embeddings

    def example_weights(self, batch: Batch) -> Tensor:
        """1/(m·K_e·n_ek): domains count equally, and so do the K_e classes within each."""
        classes = integer_classes(batch.y)
        cells = batch.domains * (int(classes.max()) + 1) + classes
        cell, counts = torch.unique(cells, return_inverse=True, return_counts=True)[1:]
        first_of_cell = torch.zeros_like(counts).scatter(0, cell, batch.domains)
        weights: Tensor = _balanced_weights(first_of_cell) / counts
        return weights[cell]


def _balanced_weights(groups: Tensor) -> Tensor:
    """1/(number of groups · size of the group) for each member; sums to 1."""
    member_of, counts = torch.unique(groups, return_inverse=True, return_counts=True)[1:]
    sizes: Tensor = counts[member_of].double()
    return 1 / (len(counts) * sizes)


def integer_classes(y: Tensor) -> Tensor:
    """The targets as (n,) integers; other targets are refused."""
    if y.is_floating_point() and not bool((y == y.round()).all()):
        raise DomainDataError(
            "CDANN aligns features within each class and needs integers as targets, but y "
            "holds other numbers. For regression use DANN, CORAL or MMD."
        )
    if y.numel() != len(y):
        raise DomainDataError(
            f"CDANN needs one class per example, got y of shape {tuple(y.shape)}."
        )
    return y.reshape(-1).long()


@dataclass(eq=False, repr=False)
class AlternatingAdversary(DomainAdversary):
    """What DomainBed's DANN and CDANN share: a step trains the discriminator *or* the predictor.

    Of 1 + d steps, counted from 1, those whose number modulo 1 + d is below d train the
    discriminator (d = ``discriminator_steps``), each on its own batch: the first step of d = 1
    trains the predictor. The predictor descends R̄ − λ·L_d with the gradient penalty in L_d, and
    its Adam has the discriminator's betas. The papers update both at once, reverse the gradient
    of the cross-entropy alone, and have no gradient penalty.
    """

    preset = "domainbed"

    def predictor_optimizer(self, choice: OptimizerChoice, learning_rate: float) -> OptimizerChoice:
        return replace(choice, betas=(self.beta1, 0.9))

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        self.require_domains(len(batch.rows_by_domain()), "the batch")
        features = predictor.features(batch.x)
        penalise = self.gradient_penalty > 0
        if (step + 1) % (1 + self.discriminator_steps) < self.discriminator_steps:
            loss = self.discriminator_loss(features.detach(), batch, penalise)
            yield Update(loss, tuple(self.parameters()), "discriminator")
            return
        risk = predictor.losses(predictor.head(features), batch.y).mean()
        against = self.discriminator_loss(features, batch, penalise)
        yield Update(risk - self.reversal_strength * against, tuple(predictor.parameters()))


class DomainBedDANN(AlternatingAdversary, DANN):
    """DANN (Ganin et al. 2016), a step for the discriminator or for the predictor."""

    def example_weights(self, batch: Batch) -> Tensor:
        """1/n: examples count equally."""
        return torch.full_like(batch.domains, 1 / len(batch.domains), dtype=torch.float64)


class DomainBedCDANN(AlternatingAdversary, CDANN):
    """CDANN (Li, Tian, Gong et al. 2018), with classes that count equally in the whole batch.

    An example weighs 1/(K·n_k), where n_k counts its class in the batch and K is the largest
    class in it plus one: classes that are missing between count too. The paper balances the
    classes within each domain and trains a discriminator per class.
    """

    def example_weights(self, batch: Batch) -> Tensor:
        """1/(K·n_k) for an example of class k."""
        classes = integer_classes(batch.y)
        counts = torch.bincount(classes)
        return 1 / (counts[classes].double() * len(counts))
