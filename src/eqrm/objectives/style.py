"""SagNet: a network that judges content and not style."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from eqrm.errors import SettingError
from eqrm.objectives.base import (
    Batch,
    Hyperparameter,
    Hyperparameters,
    Objective,
    OptimizerSettings,
    Update,
    mean_risk,
)
from eqrm.objectives.hyperparameters import (
    NON_NEGATIVE,
    POSITIVE_INTEGER,
    LogUniform,
    optional,
)
from eqrm.predictors.base import Predictor


class SagNet(Objective):
    """Style-agnostic network (Nam, Lee, Park, Yoon & Yoo 2021, Algorithm 1).

    The style of an example is the mean and standard deviation of its features; its content is
    what remains when they are divided out. Each step makes three updates:

    1. *content*: featurizer and head classify features whose **style** is randomised;
    2. *style*: a second head classifies features whose **content** is another example's;
    3. *adversary*: the featurizer makes that second head as unsure as it can,
       λ·mean[−(1/K)Σ_k log p_k]: it learns features whose style says nothing about the class.

    Only the first head predicts. :meth:`prepare` builds the style head as a fresh copy of the
    head. With ``split_at=k`` the network is cut after the k-th module of a sequential featurizer,
    and all that follows becomes content head and style head, as the paper cuts a ResNet in the
    middle so that style is taken over each channel of a feature map. Without it the cut is
    between featurizer and head, as in DomainBed, which also mixes variances where the paper
    mixes standard deviations. λ = .1, searched over 10^U(−2, 1). Needs a classifier.

    >>> SagNet(adversarial_weight=1.0).adversarial_weight
    1.0
    """

    name = "sagnet"
    hyperparameters: ClassVar[Hyperparameters] = {
        "adversarial_weight": Hyperparameter(
            0.1, "weight λ of the adversarial loss", NON_NEGATIVE, LogUniform(10, -2, 1)
        ),
        "split_at": Hyperparameter(
            None,
            "after which module of the featurizer style is randomised; None: after the last",
            optional(POSITIVE_INTEGER),
        ),
    }

    def __init__(self, adversarial_weight: float = 0.1, split_at: int | None = None) -> None:
        super().__init__()
        self.adversarial_weight = self.checked("adversarial_weight", adversarial_weight)
        self.split_at = self.checked("split_at", split_at)

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        """Cut the network where style is randomised, and build the style head."""
        predictor = super().prepare(predictor, num_domains)
        if self.split_at is not None:
            predictor = _split(predictor, self.split_at)
        self.style_head = copy.deepcopy(predictor.head)
        for module in self.style_head.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
        return predictor

    def optimizer_settings(self, predictor: Predictor) -> Mapping[str, OptimizerSettings]:
        """Adam for the style head, with the predictor's learning rate and weight decay."""
        return {"style": OptimizerSettings(tuple(self.style_head.parameters()))}

    def style_outputs(self, features: Tensor) -> Tensor:
        """What the style head makes of each example's style on another's content."""
        outputs: Tensor = self.style_head(randomise_content(features))
        return outputs

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """Content, style, adversary."""
        outputs = predictor.head(randomise_style(predictor.features(batch.x)))
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


def style_of(features: Tensor, epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each example: over space for maps, else over features.

    Features (n, d) give (n, 1); maps (n, channels, height, width) give (n, channels, 1, 1).
    """
    over = tuple(range(2, features.ndim)) if features.ndim > 2 else (1,)
    mean = features.mean(dim=over, keepdim=True)
    variance = features.var(dim=over, keepdim=True, unbiased=False)
    return mean, (variance + epsilon).sqrt()


def randomise_style(features: Tensor) -> Tensor:
    """Each example's content with a style between its own and another's (paper, SR).

    The mixing share is uniform on [0, 1], one draw per example.

    >>> features = torch.randn(4, 6)
    >>> mean, deviation = style_of(features)
    >>> mixed = randomise_style(features)
    >>> mixed_mean, mixed_deviation = style_of(mixed)
    >>> content = (features - mean) / deviation
    >>> bool(torch.isclose(content, (mixed - mixed_mean) / mixed_deviation, atol=1e-3).all())
    True
    """
    mean, deviation = style_of(features)
    other = torch.randperm(len(features), device=features.device)
    share = torch.rand(len(features), *[1] * (features.ndim - 1)).to(features)
    new_mean = share * mean + (1 - share) * mean[other]
    new_deviation = share * deviation + (1 - share) * deviation[other]
    return (features - mean) / deviation * new_deviation + new_mean


def randomise_content(features: Tensor) -> Tensor:
    """Another example's content in each example's own style (paper, CR).

    The content is a constant: gradients flow through the style alone.
    """
    mean, deviation = style_of(features)
    other = torch.randperm(len(features), device=features.device)
    content = ((features - mean) / deviation)[other].detach()
    return content * deviation + mean


def _split(predictor: Predictor, at: int) -> Predictor:
    featurizer = predictor.featurizer
    if not isinstance(featurizer, nn.Sequential) or len(featurizer) < at:
        raise SettingError(
            f"split_at={at} needs a featurizer that is an nn.Sequential of at least {at} modules, "
            f"not this:\n{featurizer}"
        )
    modules = list(featurizer)
    head = nn.Sequential(*modules[at:], predictor.head)
    return Predictor(nn.Sequential(*modules[:at]), head, predictor.loss)
