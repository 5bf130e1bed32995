"""Mean risk plus a distance between the domains' features: CORAL, MMD.

Both distances are averaged over all pairs of domains in the batch, as in DomainBed, and need
at least two domains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eqrm.checks import FLAG, NON_NEGATIVE, POSITIVE, Rule
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.batch import Batch, mean_risk
from eqrm.objectives.hyperparameters import LogUniformSpace, hyperparameter
from eqrm.predictors.base import Predictor


@dataclass(eq=False, repr=False)
class FeatureAlignment(Objective):
    """mean_e[R_e] + γ·(mean over pairs of domains of a distance between their features)."""

    min_domains = 2
    capturable = True
    penalty_weight: float = hyperparameter(
        1.0, "weight γ of the distance", NON_NEGATIVE, LogUniformSpace(10, -1, 1)
    )

    @abstractmethod
    def distance(self, features: Sequence[Tensor]) -> Tensor:
        """The mean distance over pairs, from each domain's features (n_e, d)."""

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update of the whole predictor."""
        features = predictor.features(batch.x)
        risk = mean_risk(predictor.losses(predictor.head(features), batch.y), batch)
        flat = features.flatten(1)
        # Small differences of large numbers: never in bf16.
        parts = batch.parts(flat.to(torch.promote_types(flat.dtype, torch.float32)))
        self.require_domains(len(parts), "the batch")
        with torch.autocast(flat.device.type, enabled=False):
            distance = self.distance(parts)
        yield Update(risk + self.penalty_weight * distance, tuple(predictor.parameters()))


@dataclass(eq=False, repr=False)
class CORAL(FeatureAlignment):
    """Correlation alignment (Sun & Saenko 2016, Deep CORAL, eq. 1–3).

    The distance of two domains is ‖C_i − C_j‖²_F / (4d²), with C the covariance (over n − 1) of
    the d features. A domain with one example has covariance 0.

    ``match_means`` adds the mean squared difference of the features' means, as DomainBed does, with
    the same ¼.
    """

    name = "coral"
    match_means: bool = hyperparameter(
        False, "compare the features' means too, as DomainBed does", FLAG
    )

    def distance(self, features: Sequence[Tensor]) -> Tensor:
        """The mean over pairs of ‖C_i − C_j‖²_F / (4d²)."""
        distance = _mean_squared_difference([covariance(f) for f in features])
        if self.match_means:
            distance = distance + _mean_squared_difference([f.mean(dim=0) for f in features])
        return distance / 4


def covariance(features: Tensor) -> Tensor:
    """Sample covariance (d, d) of features (n, d); 0 for a single example."""
    centred = features - features.mean(dim=0)
    return centred.T @ centred / max(len(features) - 1, 1)


def _mean_squared_difference(tensors: Sequence[Tensor]) -> Tensor:
    """The mean over pairs, and over entries, of (T_i − T_j)².

    Summed over pairs this is m·Σ(T_i − T̄)², so it costs m differences instead of m².
    """
    stacked = torch.stack(list(tensors))
    spread = (stacked - stacked.mean(dim=0)).square().sum(dim=0).mean()
    return 2 * spread / (len(tensors) - 1)


@dataclass(eq=False, repr=False)
class MMD(FeatureAlignment):
    """Maximum mean discrepancy (Li, Pan, Wang & Kot 2018, MMD-AAE; Gretton et al. 2012).

    The distance of two domains is ‖mean φ(a) − mean φ(b)‖² = E k(a, a') + E k(b, b') − 2E k(a, b)
    with averages over all pairs of examples (the biased estimate, which is never negative), and
    k the sum of Gaussian kernels. Li et al. also train an autoencoder and an adversarial prior;
    like DomainBed, this is their alignment term alone.
    """

    name = "mmd"
    gammas: Sequence[float] = hyperparameter(
        (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),  # DomainBed's
        "inverse squared widths γ of the Gaussian kernels exp(−γ‖a − b‖²), which are summed",
        Rule(
            "one or more numbers above 0",
            lambda v: isinstance(v, Sequence) and len(v) > 0 and all(map(POSITIVE.holds, v)),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gammas = tuple(self.gammas)

    def distance(self, features: Sequence[Tensor]) -> Tensor:
        """The mean over pairs of the squared MMD."""
        kernel = gaussian_kernel(torch.cat(list(features)), self.gammas)
        averages = torch.block_diag(*[f.new_full((1, len(f)), 1 / len(f)) for f in features])
        inner = averages @ kernel @ averages.T  # ⟨mean φ of domain i, mean φ of domain j⟩
        m = len(features)
        own = inner.diagonal().sum()  # the gradient of trace() waits for the device
        distance: Tensor = 2 * (m * own - inner.sum()) / (m * (m - 1))
        return distance


def gaussian_kernel(features: Tensor, gammas: Sequence[float]) -> Tensor:
    """Σ_γ exp(−γ‖a − b‖²) between all rows of features (n, d): shape (n, n)."""
    centred = features - features.mean(dim=0)  # same distances, and squares keep their digits
    norms = centred.square().sum(dim=1)
    squared = (norms[:, None] + norms[None, :] - 2 * centred @ centred.T).clamp_min(0)
    return torch.stack([torch.exp(-gamma * squared) for gamma in gammas]).sum(dim=0)


@dataclass(eq=False, repr=False)
class DomainBedCORAL(CORAL):
    """CORAL with the means of the features, and without the factor ¼ (Sun & Saenko 2016).

    The distance is mean (C_i − C_j)² + mean (μ_i − μ_j)², over the entries of covariances and
    means; the paper has the first term, divided by 4.
    """

    preset = "domainbed"
    match_means: bool = hyperparameter(
        True, "compare the features' means too, as DomainBed does", FLAG
    )

    def distance(self, features: Sequence[Tensor]) -> Tensor:
        """The mean over pairs of ‖C_i − C_j‖²_F/d² + ‖μ_i − μ_j‖²/d."""
        return 4 * super().distance(features)
