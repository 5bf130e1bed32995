"""Training on perturbed examples, features or styles: Mixup, RSC and SagNet."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from eqrm.checks import FRACTION, NON_NEGATIVE, POSITIVE
from eqrm.errors import DomainDataError
from eqrm.objectives.base import Objective, OptimizerSettings, Update
from eqrm.objectives.batch import Batch, mean_risk
from eqrm.objectives.hyperparameters import LogUniformSpace, UniformSpace, hyperparameter
from eqrm.predictors.base import Predictor
from eqrm.predictors.images import as_fractions

EPSILON = 1e-5
"""What SagNet adds to variances."""


@dataclass(eq=False, repr=False)
class Mixup(Objective):
    """Mixup (Zhang et al. 2018, eq. 1) between domains (Xu et al. 2020; Yan et al. 2020).

    Each domain i is paired with another, j, in a random circle over the domains of the batch.
    With λ ~ Beta(a, a), one draw per pair, the network sees x̃ = λx_i + (1−λ)x_j and pays
    λ·loss(f(x̃), y_i) + (1−λ)·loss(f(x̃), y_j), which for cross-entropy is the loss of the mixed
    label. The mean is over domains i.

    Every example of domain i takes a random partner from j, so domains may have different sizes.
    """

    name = "mixup"
    min_domains = 2
    concentration: float = hyperparameter(
        0.2, "a in λ ~ Beta(a, a); 0.2 stays near 0 and 1", POSITIVE, LogUniformSpace(10, -1, 1)
    )

    def partners(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """For each example, the row it is mixed with and its own share λ, both (n,)."""
        rows = list(batch.rows_by_domain().values())
        self.require_domains(len(rows), "the batch")
        share = torch.distributions.Beta(self.concentration, self.concentration)
        partner = torch.empty_like(batch.domains)
        weight = torch.empty(len(batch.y), device=batch.domains.device)
        circle = torch.randperm(len(rows)).tolist()
        for here, there in zip(circle, circle[1:] + circle[:1], strict=True):
            mine, theirs = rows[here], rows[there]
            drawn = torch.randint(len(theirs), (len(mine),), device=theirs.device)
            partner[mine] = theirs[drawn]
            weight[mine] = share.sample().to(weight)
        return partner, weight

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        x = mixable(batch.x)
        partner, weight = self.partners(batch)
        weight = weight.to(x.dtype)
        share = weight.reshape(-1, *[1] * (x.ndim - 1))
        outputs = predictor(share * x + (1 - share) * x[partner], batch.domains)
        own = predictor.losses(outputs, batch.y)
        other = predictor.losses(outputs, batch.y[partner])
        loss = mean_risk(weight * own + (1 - weight) * other, batch)
        yield Update(loss, tuple(predictor.parameters()))


def mixable(x: object) -> Tensor:
    """Inputs that have a mean: real numbers, and bytes of images as fractions."""
    found = as_fractions(x) if isinstance(x, Tensor) else None
    if found is None or not found.is_floating_point():
        raise DomainDataError("Mixup averages inputs: x must be a tensor of real numbers.")
    return found


@dataclass(eq=False, repr=False)
class RSC(Objective):
    """Representation self-challenging (Huang, Wang, Xing & Huang 2020, eq. 1–5).

    The features z that speak most for the true class are muted, and the head must do without:

    1. g = ∂(score of the true class)/∂z (eq. 1);
    2. mute the ``feature_drop`` share of features with the largest g (eq. 2–4);
    3. do so only for the ``example_drop`` share of examples whose true-class probability falls
       most when muted (section 3.3); then descend the usual loss (eq. 5).

    Shares are rounded down to whole features and examples, so a share of 0 is ERM. Feature maps
    are muted entry by entry. Needs a classifier (cross-entropy, or binary cross-entropy with one
    logit).
    """

    name = "rsc"
    feature_drop: float = hyperparameter(
        1 / 3, "share of the features that is muted", FRACTION, UniformSpace(0, 0.5)
    )
    example_drop: float = hyperparameter(
        1 / 3, "share of the examples it is done to", FRACTION, UniformSpace(0, 0.5)
    )

    def mask(self, features: Tensor, y: Tensor, predictor: Predictor) -> Tensor:
        """1 for what is kept, 0 for what is muted; the shape of the features."""
        true_class = y.reshape(-1, 1).long()
        z = features.detach().requires_grad_()
        logits = predictor.class_logits(predictor.head(z))
        (gradient,) = torch.autograd.grad(logits.gather(1, true_class).sum(), z)
        keep = self.kept(gradient.flatten(1), self.feature_drop).reshape(z.shape)
        with torch.no_grad():
            muted = predictor.class_logits(predictor.head(z * keep))
            fall = (logits.softmax(dim=1) - muted.softmax(dim=1)).gather(1, true_class)
            spared = self.kept(fall.T, self.example_drop).T
        return torch.maximum(keep, spared.reshape(-1, *[1] * (z.ndim - 1)))

    def kept(self, values: Tensor, share: float) -> Tensor:
        """1 everywhere but at the ⌊share · columns⌋ largest values of each row, where it is 0."""
        drop = int(share * values.shape[1] + 1e-9)  # a third of 3 is one, not 0.999…
        largest = values.topk(drop, dim=1).indices
        return torch.ones_like(values).scatter(1, largest, 0.0)

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        features = predictor.features(batch.x)
        mask = self.mask(features, batch.y, predictor)
        losses = predictor.losses(predictor.head(features * mask), batch.y)
        yield Update(mean_risk(losses, batch), tuple(predictor.parameters()))


@dataclass(eq=False, repr=False)
class SagNet(Objective):
    """Style-agnostic network (Nam, Lee, Park, Yoon & Yoo 2021, Algorithm 1).

    The style of an example is the mean and standard deviation of its features; its content is
    what remains when they are divided out. Each step makes three updates:

    1. *content*: featurizer and head classify features whose **style** is randomised;
    2. *style*: a second head classifies features whose **content** is another example's;
    3. *adversary*: the featurizer makes that second head as unsure as it can,
       λ·mean[−(1/K)Σ_k log p_k]: it learns features whose style says nothing about the class.

    Only the first head predicts. The network is cut between featurizer and head, as in DomainBed;
    the paper cuts a ResNet in the middle. Needs a classifier.
    """

    name = "sagnet"
    _mixes_variances: ClassVar[bool] = False
    """Unbiased variances in the place of standard deviations."""
    adversarial_weight: float = hyperparameter(
        0.1, "weight λ of the adversarial loss", NON_NEGATIVE, LogUniformSpace(10, -2, 1)
    )

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        predictor = super().prepare(predictor, num_domains)
        self.style_head = copy.deepcopy(predictor.head)
        for module in self.style_head.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
        return predictor

    def optimizer_settings(self, predictor: Predictor) -> Mapping[str, OptimizerSettings]:
        """Adam for the style head, with the predictor's learning rate and weight decay."""
        return {"style": OptimizerSettings(tuple(self.style_head.parameters()))}

    def other_style(self, features: Tensor) -> Tensor:
        """Each example's content in another style.

        The style lies between its own and another's (paper, SR): the mixing share is uniform on
        [0, 1], one draw per example.
        """
        mean, variance = self._style_of(features)
        other = torch.randperm(len(features), device=features.device)
        share = torch.rand(len(features), *[1] * (features.ndim - 1)).to(features)
        deviation = (variance + EPSILON).sqrt()

        def mixed(values: Tensor) -> Tensor:
            return share * values + (1 - share) * values[other]

        new = (mixed(variance) + EPSILON).sqrt() if self._mixes_variances else mixed(deviation)
        return (features - mean) / deviation * new + mixed(mean)

    def other_content(self, features: Tensor) -> Tensor:
        """Another example's content in each example's style.

        The content is a constant: gradients flow through the style alone (paper, CR).
        """
        mean, variance = self._style_of(features)
        deviation = (variance + EPSILON).sqrt()
        other = torch.randperm(len(features), device=features.device)
        content = ((features - mean) / deviation)[other].detach()
        return content * deviation + mean

    def _style_of(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each example: over space for maps, else over features.

        Features (n, d) give (n, 1); maps (n, channels, height, width) give (n, channels, 1, 1).
        """
        over = tuple(range(2, features.ndim)) if features.ndim > 2 else (1,)
        mean = features.mean(dim=over, keepdim=True)
        return mean, features.var(dim=over, keepdim=True, unbiased=self._mixes_variances)

    def style_outputs(self, features: Tensor) -> Tensor:
        """What the style head makes of each example's style on another's content."""
        outputs: Tensor = self.style_head(self.other_content(features))
        return outputs

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        outputs = predictor.head(self.other_style(predictor.features(batch.x)))
        content = mean_risk(predictor.losses(outputs, batch.y), batch)
        yield Update(content, tuple(predictor.parameters()))

        with torch.no_grad():
            features = predictor.features(batch.x)
        style = mean_risk(predictor.losses(self.style_outputs(features), batch.y), batch)
        yield Update(style, tuple(self.style_head.parameters()), "style")

        parameters = tuple(predictor.featurizer.parameters())
        if not parameters:  # features that are the inputs cannot be taught
            return
        logits = predictor.class_logits(self.style_outputs(predictor.features(batch.x)))
        unsure = mean_risk(-logits.log_softmax(dim=1).mean(dim=1), batch)
        yield Update(self.adversarial_weight * unsure, parameters)


@dataclass(eq=False, repr=False)
class DomainBedMixup(Mixup):
    """Mixup (Zhang et al. 2018) of two domains' examples in their order.

    Pairs of domains are a random circle, with one share per pair; the larger batch of a pair is
    cut to the size of the smaller. The paper has one shuffled batch and no domains.
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
        x, pairs = mixable(batch.x), self.pairs(batch)
        terms = []
        for first, second, share in pairs:
            mixed = share * x[first] + (1 - share) * x[second]
            outputs = predictor(mixed, batch.domains[first])
            terms.append(share * predictor.losses(outputs, batch.y[first]).mean())
            terms.append((1 - share) * predictor.losses(outputs, batch.y[second]).mean())
        yield Update(torch.stack(terms).sum() / len(pairs), tuple(predictor.parameters()))


@dataclass(eq=False, repr=False)
class DomainBedRSC(RSC):
    """RSC with percentiles (Huang, Wang, Xing & Huang 2020, eq. 1–5).

    What is not below the percentile 100·(1 − share) of its row is muted, with percentiles
    interpolated between values: at least one feature and one example, also at a share of 0. The
    paper mutes a number of features that is the share of all, and alternates between muting
    whole channels and places, which DomainBed's vectors of features do not have.
    """

    preset = "domainbed"

    def kept(self, values: Tensor, share: float) -> Tensor:
        """1 below the percentile of each row, else 0."""
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        limit = torch.quantile(wide, 1 - share, dim=1, keepdim=True)
        return (wide < limit).to(values.dtype)


class DomainBedSagNet(SagNet):
    """SagNet (Nam et al. 2021) between featurizer and head, mixing variances.

    The paper cuts a ResNet in the middle, and mixes standard deviations of channels. DomainBed's
    styles are the mean and the variance (over d − 1) of an example's d features.
    """

    preset = "domainbed"
    _mixes_variances = True
