"""Mean risk plus a penalty on outputs, gradients or features: IRM, IGA, SD, CORAL, MMD."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eqrm.checks import FLAG, NON_NEGATIVE, POSITIVE, Rule
from eqrm.objectives.base import Objective, Phase, Update, annealing
from eqrm.objectives.batch import Batch, mean_risk
from eqrm.objectives.hyperparameters import LogUniformSpace, hyperparameter
from eqrm.predictors.base import Predictor
from eqrm.risks import domain_risks


@dataclass(eq=False, repr=False)
class IRM(Objective):
    """Invariant risk minimisation (Arjovsky, Bottou, Gulrajani & Lopez-Paz 2019, IRMv1).

    Minimises mean_e[R_e(f)] + λ·mean_e[g_e²], where g_e = d/dw R_e(w·f) at w = 1: the gradient
    of the domain's risk in a dummy scale on the outputs. If the same scale is best in every
    domain, all g_e vanish.

    With ``unbiased`` the square is replaced by the product of the gradients of two halves of the
    domain's examples, whose expectation is the square of the expected gradient (their section
    3.2 and appendix D). A domain with one example has no second half and no penalty then. The
    product can be negative, and trained on one fixed batch it runs away: it is meant for fresh
    batches. DomainBed always uses the two halves.
    """

    name = "irm"
    capturable = True
    penalty_weight: float = hyperparameter(
        100.0, "weight λ of the squared gradients", NON_NEGATIVE, LogUniformSpace(10, -1, 5)
    )
    unbiased: bool = hyperparameter(
        False, "estimate each square from two halves of the domain's examples", FLAG
    )

    def recommended_phases(self) -> tuple[Phase, ...]:
        return annealing()

    def penalty(self, outputs: Tensor, batch: Batch, predictor: Predictor) -> Tensor:
        """The mean over domains of g_e², or of its unbiased estimate."""
        groups, number = batch.domains, batch.num_domains
        if self.unbiased:  # two halves of each domain
            groups, number = 2 * groups + _rank_in_domain(batch) % 2, 2 * number
        gradients = scale_gradients(outputs, batch.y, groups, number, predictor)
        squares = gradients.reshape(-1, 2).prod(dim=1) if self.unbiased else gradients.square()
        return squares.sum() / batch.num_present()  # those of absent domains are 0

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        outputs = predictor(batch.x, batch.domains)
        risk = mean_risk(predictor.losses(outputs, batch.y), batch)
        loss = risk + self.penalty_weight * self.penalty(outputs, batch, predictor)
        yield Update(loss, tuple(predictor.parameters()))


def scale_gradients(
    outputs: Tensor, y: Tensor, groups: Tensor, num_groups: int, predictor: Predictor
) -> Tensor:
    """d/dw of each group's risk when its outputs are multiplied by w, at w = 1.

    Each group has its own w, so one backward pass gives all gradients, shape (num_groups,).
    """
    scale = outputs.new_ones(num_groups).requires_grad_()
    per_example = scale[groups].reshape(-1, *[1] * (outputs.ndim - 1))
    losses = predictor.losses(outputs * per_example, y)
    risks = domain_risks(losses, groups, num_groups)
    (gradients,) = torch.autograd.grad(risks.values.sum(), scale, create_graph=True)
    return gradients


def _rank_in_domain(batch: Batch) -> Tensor:
    """0, 1, 2, … for the examples of each domain, in the order of the batch."""
    order = torch.argsort(batch.domains, stable=True)
    ones = torch.ones_like(batch.domains)
    counts = ones.new_zeros(batch.num_domains).scatter_add(0, batch.domains, ones)
    starts = counts.cumsum(0) - counts
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - starts[batch.domains[order]]
    return rank


@dataclass(eq=False, repr=False)
class IGA(Objective):
    """Inter-environmental gradient alignment (Koyama & Yamaguchi 2020).

    Minimises mean_e[R_e] + λ·trace Var_e(∇R_e): the mean risk and the variance over domains of
    the gradient in the parameters, Var_e(g) = mean_e‖g_e − ḡ‖². One domain has no variance.

    DomainBed sums over domains where the paper averages: its published λ is therefore m times
    smaller than ours for the same loss, with m domains. It also treats ḡ as a constant, which
    changes nothing: Σ_e(g_e − ḡ) = 0, so ḡ's own derivative drops out.
    """

    name = "iga"
    min_domains = 2
    penalty_weight: float = hyperparameter(
        1000.0,
        "weight λ of the variance of the gradients",
        NON_NEGATIVE,
        LogUniformSpace(10, 1, 5),
    )

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update of the whole predictor; costs one backward pass per domain."""
        losses = predictor.losses(predictor(batch.x, batch.domains), batch.y)
        risks = [part.mean() for part in batch.parts(losses)]
        self.require_domains(len(risks), "the batch")
        parameters = tuple(p for p in predictor.parameters() if p.requires_grad)
        loss = torch.stack(risks).mean()
        loss = loss + self.penalty_weight * self.penalty(risks, parameters)
        yield Update(loss, parameters)

    def penalty(self, risks: list[Tensor], parameters: tuple[Tensor, ...]) -> Tensor:
        """trace Var_e(∇R_e), divided by the number of domains, differentiable once more."""
        gradients = [
            torch.autograd.grad(risk, parameters, create_graph=True, materialize_grads=True)
            for risk in risks
        ]
        variances = [
            torch.stack(of_one).var(dim=0, unbiased=False).sum()
            for of_one in zip(*gradients, strict=True)
        ]
        return torch.stack(variances).sum()


@dataclass(eq=False, repr=False)
class SD(Objective):
    """Spectral decoupling (Pezeshki et al. 2021, "Gradient Starvation").

    Minimises the mean risk + λ·(mean squared output): large logits on the features learned first
    no longer starve the others of gradient. The paper writes λ/2·‖ŷ‖² for one logit per example;
    the mean over examples and outputs (DomainBed's form) is the paper's at half of its λ.
    """

    name = "sd"
    capturable = True
    penalty_weight: float = hyperparameter(
        0.1, "weight λ of the squared outputs", NON_NEGATIVE, LogUniformSpace(10, -5, -1)
    )

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        outputs = predictor(batch.x, batch.domains)
        squares = outputs.square().reshape(len(outputs), -1).mean(dim=1)
        losses = predictor.losses(outputs, batch.y) + self.penalty_weight * squares
        yield Update(mean_risk(losses, batch), tuple(predictor.parameters()))


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
class DomainBedIRM(IRM):
    """IRM with the product of the gradients of two halves (Arjovsky et al. 2019, appendix D).

    The halves are every other example of a domain's batch. The paper's own experiments square
    the gradient of the whole batch. DomainBed's weight is 1, not 0, before the annealing ends.
    """

    preset = "domainbed"
    unbiased: bool = hyperparameter(
        True, "estimate each square from two halves of the domain's examples", FLAG
    )


@dataclass(eq=False, repr=False)
class DomainBedIGA(IGA):
    """IGA with a sum over domains in the penalty (Koyama & Yamaguchi 2020 have their mean)."""

    preset = "domainbed"

    def penalty(self, risks: list[Tensor], parameters: tuple[Tensor, ...]) -> Tensor:
        """Σ_e ‖∇R_e − ∇R̄‖²."""
        return len(risks) * super().penalty(risks, parameters)


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
