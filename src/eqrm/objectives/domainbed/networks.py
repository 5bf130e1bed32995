"""DomainBed's methods with networks of their own: DANN, CDANN, SagNet, ARM, MTL.

As in ``eqrm.objectives.domainbed.losses``, each makes the update of DomainBed's code, and says
where that differs from the paper of the method and from ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eqrm.objectives.adversarial import CDANN, DANN, DomainAdversary, integer_classes
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.batch import Batch
from eqrm.objectives.domain_context import (
    ARM,
    MTL,
    MarginalTransferPredictor,
    prepared_by,
)
from eqrm.objectives.optimizers import OptimizerChoice
from eqrm.objectives.perturbation import SagNet
from eqrm.predictors.base import Predictor
from eqrm.risks import domain_risks


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
        """The run's, with β = (beta1, .9)."""
        return replace(choice, betas=(self.beta1, 0.9))

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update, of the discriminator or of the predictor."""
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
    """DANN (Ganin et al. 2016), a step for the discriminator or for the predictor.

    >>> DomainBedDANN().discriminator_steps
    1
    """

    def example_weights(self, batch: Batch) -> Tensor:
        """1/n: examples count equally."""
        return torch.full_like(batch.domains, 1 / len(batch.domains), dtype=torch.float64)


class DomainBedCDANN(AlternatingAdversary, CDANN):
    """CDANN (Li, Tian, Gong et al. 2018), with classes that count equally in the whole batch.

    An example weighs 1/(K·n_k), where n_k counts its class in the batch and K is the largest
    class in it plus one: classes that are missing between count too. The paper balances the
    classes within each domain and trains a discriminator per class.

    >>> DomainBedCDANN().min_domains
    2
    """

    def example_weights(self, batch: Batch) -> Tensor:
        """1/(K·n_k) for an example of class k."""
        classes = integer_classes(batch.y)
        counts = torch.bincount(classes)
        return 1 / (counts[classes].double() * len(counts))


class DomainBedSagNet(SagNet):
    """SagNet (Nam et al. 2021) between featurizer and head, mixing variances.

    The paper cuts a ResNet in the middle, and mixes standard deviations of channels. DomainBed's
    styles are the mean and the variance (over d − 1) of an example's d features.

    >>> DomainBedSagNet().adversarial_weight
    0.1
    """

    preset = "domainbed"

    def other_style(self, features: Tensor) -> Tensor:
        """Each example's content, with means and variances between its own and another's."""
        mean, variance = _style(features)
        other = torch.randperm(len(features), device=features.device)
        share = torch.rand(len(features), *[1] * (features.ndim - 1)).to(features)
        new_mean = share * mean + (1 - share) * mean[other]
        new_variance = share * variance + (1 - share) * variance[other]
        return _content(features, mean, variance) * (new_variance + EPSILON).sqrt() + new_mean

    def other_content(self, features: Tensor) -> Tensor:
        """Another example's content, a constant, in each example's own style."""
        mean, variance = _style(features)
        other = torch.randperm(len(features), device=features.device)
        content = _content(features, mean, variance)[other].detach()
        return content * (variance + EPSILON).sqrt() + mean


EPSILON = 1e-5
"""What SagNet adds to variances."""


def _style(features: Tensor) -> tuple[Tensor, Tensor]:
    over = tuple(range(2, features.ndim)) if features.ndim > 2 else (1,)
    return features.mean(dim=over, keepdim=True), features.var(dim=over, keepdim=True)


def _content(features: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return (features - mean) / (variance + EPSILON).sqrt()


class DomainBedARM(ARM):
    """ARM-CML (Zhang et al. 2021) with batch norm in the context network, for images.

    DomainBed predicts new images in groups of its batch size, in the order of their files, or
    all of a batch together; here the examples of a domain in a batch are its context. Its
    pretrained first layer repeats the weights of the first channel for the context, ours starts
    them at random.

    >>> from eqrm.predictors import CNN
    >>> predictor = DomainBedARM().prepare(CNN(3, 2), num_domains=4)
    >>> [type(layer).__name__ for layer in predictor.context]
    ['Conv2d', 'BatchNorm2d', 'ReLU', 'Conv2d', 'BatchNorm2d', 'ReLU', 'Conv2d']
    """

    preset = "domainbed"
    normalised = True


class NoisyTransferPredictor(MarginalTransferPredictor):
    """DomainBed's MTL network: head([features, noise]), fresh normal noise for every example."""

    def _outputs(self, features: Tensor, embeddings: Tensor) -> Tensor:
        return super()._outputs(features, torch.randn_like(features))


class DomainBedMTL(MTL):
    """MTL (Blanchard et al. 2021), with DomainBed's noise in the place of embeddings.

    DomainBed's code fills the embedding of the domain with normal noise before the head sees it
    (an in-place ``normal_``), in training and prediction, so that nothing is transferred; the
    paper has no noise. It minimises the sum of the domains' risks, not their mean. The running
    means, which start at 0, are kept and never used. Use MTL without the preset for the method.

    >>> DomainBedMTL().update_rate
    0.99
    """

    preset = "domainbed"

    def prepare(self, predictor: Predictor, num_domains: int) -> NoisyTransferPredictor:
        """Widen the head and make room for the domains' embeddings."""
        predictor = Objective.prepare(self, predictor, num_domains)
        made = NoisyTransferPredictor(predictor, num_domains)
        made.seen.fill_(True)  # the first batch moves the running means from 0, as later ones do
        return made

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update of the whole predictor."""
        network = prepared_by(self, predictor, NoisyTransferPredictor)
        outputs = network.while_training(batch.x, batch.domains, self.update_rate)
        losses = predictor.losses(outputs, batch.y)
        risks = domain_risks(losses, batch.domains, batch.num_domains)
        yield Update(risks.values.sum(), tuple(predictor.parameters()))
