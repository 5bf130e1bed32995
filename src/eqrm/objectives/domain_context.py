"""Predictors that adapt to the domain from unlabelled examples of it: ARM and MTL.

Both summarise a domain by an average over the examples at hand and feed it to the network next
to each example, so predictions for a new domain need a batch of it, and no labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from eqrm.checks import COUNT, FRACTION
from eqrm.errors import SettingError
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.batch import Batch, mean_risk
from eqrm.objectives.hyperparameters import ChoiceSpace, hyperparameter
from eqrm.predictors.base import Predictor, first_layer, input_size, layers, widened
from eqrm.predictors.images import Fractions, ImageScaling
from eqrm.risks import domain_risks


def domain_means(values: Tensor, domains: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mean over each domain's examples, and for each example which mean is its own.

    ``domains`` None means that all come from one domain. values (n, …) give means (m, …).
    """
    if domains is None:
        return values.mean(dim=0, keepdim=True), torch.zeros(
            len(values), dtype=torch.long, device=values.device
        )
    _, of_example, counts = torch.unique(domains, return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(counts), *values.shape[1:]).index_add(0, of_example, values)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1)), of_example


class ContextPredictor(Predictor):
    """ARM's network: head(featurizer([x, context])), context the mean of c(x) over the domain.

    For images the context is a map with ``context_size`` channels, else ``context_size`` numbers.
    In ``forward`` examples adapt to those with the same ``domains``; without them, to all.
    """

    def __init__(
        self, predictor: Predictor, context_size: int, width: int, normalised: bool = False
    ) -> None:
        whole = widened(nn.Sequential(predictor.featurizer, predictor.head), context_size)
        featurizer, head = whole.children()
        scaling: nn.Module = nn.Identity()
        if isinstance(featurizer, nn.Sequential) and isinstance(
            featurizer[0], Fractions | ImageScaling
        ):  # the context is that of scaled images, and is not scaled itself
            scaling, featurizer[0] = featurizer[0], scaling
        super().__init__(featurizer, head, predictor.loss)
        self.scaling = scaling
        first = first_layer(predictor)
        self.flat = isinstance(first, nn.Linear)
        self.context = _context_network(first, context_size, width, normalised).to(first.weight)

    def with_context(self, x: Tensor, domains: Tensor | None) -> Tensor:
        """x and its domain's context side by side: (n, d + context_size, …)."""
        x = self.scaling(x.flatten(1) if self.flat else x)
        means, of_example = domain_means(self.context(x), domains)
        return torch.cat([x, means[of_example]], dim=1)

    def features(self, x: Any, domains: Tensor | None = None) -> Tensor:
        return super().features(self.with_context(x, domains))

    def forward(self, x: Any, domains: Tensor | None = None) -> Tensor:
        outputs: Tensor = self.head(self.features(x, domains))
        return outputs


def _context_network(
    first: nn.Linear | nn.Conv2d, context_size: int, width: int, normalised: bool
) -> nn.Module:
    """c(x); with ``normalised`` batch norm follows each of its convolutions but the last."""
    if isinstance(first, nn.Linear):
        return layers(first.in_features, width, context_size)
    channels = (first.in_channels, width, width, context_size)
    convolutions: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        convolutions.append(nn.Conv2d(inputs, outputs, kernel_size=5, padding=2))
        convolutions += [nn.BatchNorm2d(outputs)] if normalised else []
        convolutions.append(nn.ReLU())
    return nn.Sequential(*convolutions[: -2 if normalised else -1])


@dataclass(eq=False, repr=False)
class ARM(Objective):
    """Adaptive risk minimisation with a contextual network (Zhang et al. 2021, ARM-CML).

    Minimises the mean risk *after adaptation* (their Algorithm 1): the predictor sees each
    example with its domain's context, the average over the domain's batch of a small network
    c(x) that is trained with everything else. Their experiments and DomainBed add normalisation
    between the context network's layers; there is none here, so one example is enough.

    A batch is a sample of the domains: at prediction time give ``predictor(x, domains)``, or
    batches that each come from one domain.
    """

    name = "arm"
    normalised: ClassVar[bool] = False
    context_size: int = hyperparameter(1, "numbers, or channels for images, in the context", COUNT)
    context_width: int = hyperparameter(
        64, "hidden units or channels of the context network", COUNT
    )

    def prepare(self, predictor: Predictor, num_domains: int) -> ContextPredictor:
        predictor = super().prepare(predictor, num_domains)
        return ContextPredictor(predictor, self.context_size, self.context_width, self.normalised)

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        outputs = prepared_by(self, predictor, ContextPredictor)(batch.x, batch.domains)
        loss = mean_risk(predictor.losses(outputs, batch.y), batch)
        yield Update(loss, tuple(predictor.parameters()))


class MarginalTransferPredictor(Predictor):
    """MTL's network: head([features, embedding]), embedding the mean features of the domain.

    ``embeddings`` (num_domains, d) holds a running mean for the training domains.
    :meth:`forward` does not look at it: it embeds each domain from the batch, known or not.
    """

    embeddings: Tensor
    seen: Tensor

    def __init__(self, predictor: Predictor, num_domains: int) -> None:
        size = input_size(predictor.head)
        super().__init__(predictor.featurizer, widened(predictor.head, size), predictor.loss)
        like = first_layer(predictor.head).weight
        self.register_buffer("embeddings", like.new_zeros(num_domains, size))
        self.register_buffer("seen", torch.zeros(num_domains, dtype=torch.bool, device=like.device))

    def features(self, x: Any) -> Tensor:
        return super().features(x).flatten(1)

    def forward(self, x: Any, domains: Tensor | None = None) -> Tensor:
        """Outputs, with each domain embedded by the mean features of its examples in x."""
        features = self.features(x)
        means, of_example = domain_means(features, domains)
        return self._outputs(features, means[of_example])

    def while_training(self, x: Any, domains: Tensor, update_rate: float) -> Tensor:
        """Outputs with running embeddings, which this call moves towards the batch's means."""
        features = self.features(x)
        means, of_example = domain_means(features, domains)
        present = torch.unique(domains)
        rate = torch.where(self.seen[present], update_rate, 1.0)[:, None].to(means.dtype)
        running = rate * means + (1 - rate) * self.embeddings[present]
        self.embeddings[present] = running.detach()
        self.seen[present] = True
        return self._outputs(features, running[of_example])

    def _outputs(self, features: Tensor, embeddings: Tensor) -> Tensor:
        outputs: Tensor = self.head(torch.cat([features, embeddings], dim=1))
        return outputs


@dataclass(eq=False, repr=False)
class MTL(Objective):
    """Marginal transfer learning (Blanchard, Deshmukh, Dogan, Lee & Scott 2021).

    The predictor is a function of the example *and* of its domain's distribution of inputs,
    f(P̂_e, x); the paper embeds P̂_e by a kernel mean, DomainBed's network version and this one by
    the mean of the features. While training a domain's embedding is a running one,
    rate·(batch mean) + (1 − rate)·(stored), and a domain's first batch counts fully. An unseen
    domain is embedded by the batch at hand.

    In DomainBed's code nothing is transferred (:class:`DomainBedMTL`).
    """

    name = "mtl"
    _network: ClassVar[type[MarginalTransferPredictor]] = MarginalTransferPredictor
    update_rate: float = hyperparameter(
        0.99,
        "weight of the batch's mean in a domain's running embedding",
        FRACTION,
        ChoiceSpace((0.5, 0.9, 0.99, 1.0)),
    )

    def prepare(self, predictor: Predictor, num_domains: int) -> MarginalTransferPredictor:
        return self._network(super().prepare(predictor, num_domains), num_domains)

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        network = prepared_by(self, predictor, self._network)
        outputs = network.while_training(batch.x, batch.domains, self.update_rate)
        loss = self._total(predictor.losses(outputs, batch.y), batch)
        yield Update(loss, tuple(predictor.parameters()))

    def _total(self, losses: Tensor, batch: Batch) -> Tensor:
        return mean_risk(losses, batch)


P = TypeVar("P", bound=Predictor)


def prepared_by(objective: Objective, predictor: Predictor, kind: type[P]) -> P:
    """The predictor, if it is of the kind that the objective's ``prepare`` returns."""
    if not isinstance(predictor, kind):
        name = type(objective).__name__
        raise SettingError(
            f"{name} changes the network: train the predictor that "
            f"{name}.prepare(predictor, num_domains) returns, got {type(predictor).__name__}."
        )
    return predictor


class DomainBedARM(ARM):
    """ARM-CML (Zhang et al. 2021) with batch norm in the context network, for images.

    DomainBed predicts new images in groups of its batch size, in the order of their files, or
    all of a batch together; here the examples of a domain in a batch are its context. Its
    pretrained first layer repeats the weights of the first channel for the context, ours starts
    them at random.
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
    """

    preset = "domainbed"
    _network = NoisyTransferPredictor

    def prepare(self, predictor: Predictor, num_domains: int) -> MarginalTransferPredictor:
        made = super().prepare(predictor, num_domains)
        made.seen.fill_(True)  # the first batch moves the running means from 0, as later ones do
        return made

    def _total(self, losses: Tensor, batch: Batch) -> Tensor:
        total: Tensor = domain_risks(losses, batch.domains, batch.num_domains).values.sum()
        return total
