"""Training on perturbed examples or features: Mixup and RSC. (SagNet is in ``style.py``.)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.objectives.base import (
    Batch,
    Hyperparameter,
    Hyperparameters,
    Objective,
    Update,
    mean_risk,
)
from eqrm.objectives.hyperparameters import FRACTION, POSITIVE, LogUniform, Uniform
from eqrm.predictors.base import Predictor


class Mixup(Objective):
    """Mixup (Zhang et al. 2018, eq. 1) between domains (Xu et al. 2020; Yan et al. 2020).

    Each domain i is paired with another, j, in a random circle over the domains of the batch.
    With λ ~ Beta(a, a), one draw per pair, the network sees x̃ = λx_i + (1−λ)x_j and pays
    λ·loss(f(x̃), y_i) + (1−λ)·loss(f(x̃), y_j), which for cross-entropy is the loss of the mixed
    label. The mean is over domains i.

    Every example of domain i takes a random partner from j, so domains may have different sizes.
    DomainBed cuts both to the smaller and pairs them in order, and with one domain it pairs each
    example with itself. It has a = .2, searched over 10^U(−1, 1).

    >>> Mixup(concentration=0.4).concentration
    0.4
    """

    name = "mixup"
    min_domains = 2
    hyperparameters: ClassVar[Hyperparameters] = {
        "concentration": Hyperparameter(
            0.2, "a in λ ~ Beta(a, a); 0.2 stays near 0 and 1", POSITIVE, LogUniform(10, -1, 1)
        ),
    }

    def __init__(self, concentration: float = 0.2) -> None:
        super().__init__()
        self.concentration = self.checked("concentration", concentration)

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
        """One update of the whole predictor, on mixed examples only."""
        if not isinstance(batch.x, Tensor) or not batch.x.is_floating_point():
            raise DomainDataError("Mixup averages inputs: x must be a tensor of real numbers.")
        partner, weight = self.partners(batch)
        weight = weight.to(batch.x.dtype)
        share = weight.reshape(-1, *[1] * (batch.x.ndim - 1))
        outputs = predictor(share * batch.x + (1 - share) * batch.x[partner], batch.domains)
        own = predictor.losses(outputs, batch.y)
        other = predictor.losses(outputs, batch.y[partner])
        loss = mean_risk(weight * own + (1 - weight) * other, batch)
        yield Update(loss, tuple(predictor.parameters()))


class RSC(Objective):
    """Representation self-challenging (Huang, Wang, Xing & Huang 2020, eq. 1–5).

    The features z that speak most for the true class are muted, and the head must do without:

    1. g = ∂(score of the true class)/∂z (eq. 1);
    2. mute the ``feature_drop`` share of features with the largest g (eq. 2–4);
    3. do so only for the ``example_drop`` share of examples whose true-class probability falls
       most when muted (section 3.3); then descend the usual loss (eq. 5).

    Shares are rounded down to whole features and examples, so a share of 0 is ERM. DomainBed
    compares with percentiles and mutes at least one of each; both shares are ⅓ there, searched
    over U(0, .5). Feature maps are muted entry by entry. Needs a classifier
    (cross-entropy, or binary cross-entropy with one logit).

    >>> RSC(feature_drop=0.5).example_drop
    0.3333333333333333
    """

    name = "rsc"
    hyperparameters: ClassVar[Hyperparameters] = {
        "feature_drop": Hyperparameter(
            1 / 3, "share of the features that is muted", FRACTION, Uniform(0, 0.5)
        ),
        "example_drop": Hyperparameter(
            1 / 3, "share of the examples it is done to", FRACTION, Uniform(0, 0.5)
        ),
    }

    def __init__(self, feature_drop: float = 1 / 3, example_drop: float = 1 / 3) -> None:
        super().__init__()
        self.feature_drop = self.checked("feature_drop", feature_drop)
        self.example_drop = self.checked("example_drop", example_drop)

    def mask(self, features: Tensor, y: Tensor, predictor: Predictor) -> Tensor:
        """1 for what is kept, 0 for what is muted; the shape of the features."""
        true_class = y.reshape(-1, 1).long()
        z = features.detach().requires_grad_()
        logits = predictor.class_logits(predictor.head(z))
        (gradient,) = torch.autograd.grad(logits.gather(1, true_class).sum(), z)
        keep = _without_largest(gradient.flatten(1), self.feature_drop).reshape(z.shape)
        with torch.no_grad():
            muted = predictor.class_logits(predictor.head(z * keep))
            fall = (logits.softmax(dim=1) - muted.softmax(dim=1)).gather(1, true_class)
            spared = _without_largest(fall.T, self.example_drop).T
        return torch.maximum(keep, spared.reshape(-1, *[1] * (z.ndim - 1)))

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update of the whole predictor, on muted features."""
        features = predictor.features(batch.x)
        mask = self.mask(features, batch.y, predictor)
        losses = predictor.losses(predictor.head(features * mask), batch.y)
        yield Update(mean_risk(losses, batch), tuple(predictor.parameters()))


def _without_largest(values: Tensor, share: float) -> Tensor:
    """1 everywhere but at the ⌊share · columns⌋ largest values of each row, where it is 0."""
    drop = int(share * values.shape[1] + 1e-9)  # a third of 3 is one, not 0.999…
    largest = values.topk(drop, dim=1).indices
    return torch.ones_like(values).scatter(1, largest, 0.0)
