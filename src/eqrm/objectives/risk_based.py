"""Objectives that are functions of the domains' risks: ERM, EQRM, Superquantile, GroupDRO, VREx."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from eqrm.distributions import KDE, Empirical, Gaussian, LogNormal, resolve_bandwidth
from eqrm.distributions.bandwidths import Bandwidth, BandwidthFunction
from eqrm.errors import DomainDataError, EqrmWarning, SettingError, did_you_mean
from eqrm.level import Level
from eqrm.objectives.base import (
    Hyperparameter,
    Hyperparameters,
    RecommendedPhase,
    RiskObjective,
)
from eqrm.objectives.hyperparameters import (
    NON_NEGATIVE,
    POSITIVE,
    Constraint,
    LogUniform,
    Uniform,
)
from eqrm.objectives.risk_memory import RiskMemory
from eqrm.predictors.base import Predictor
from eqrm.risks import DomainRisks

Estimator = Callable[..., Any]

DISTRIBUTIONS: dict[str, Estimator] = {
    "empirical": Empirical,
    "gaussian": Gaussian,
    "kde": KDE,
    "lognormal": LogNormal,
}

INVARIANCE_TAIL = -50.0
"""Levels with log(1−α) below this are meant to equalise risks (Proposition A.2)."""

LEVEL = Constraint(
    "a level: a number in (0, 1), a Level, or a text such as '1-e^-1000'",
    lambda value: isinstance(value, (Level, float, int, str)) and not isinstance(value, bool),
)


class InvarianceWarning(EqrmWarning):
    """A level near 1 with a bandwidth that need not equalise the risks."""


class QuantileBelowRisksWarning(EqrmWarning):
    """The quantile that is minimised lies below every risk."""


class ERM(RiskObjective):
    """Empirical risk minimisation: the mean of the domains' risks (the paper, Eq. 2.2).

    Every domain counts once, however many examples it has.

    >>> ERM()(torch.tensor([1.0, 3.0, 6.0]), ["a", "a", "b"])
    tensor(4.)
    """

    name = "erm"

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """Σ p_i R_i."""
        return risks.mean() if weights is None else (weights * risks).sum().to(risks.dtype)


class EQRM(RiskObjective):
    """Empirical quantile risk minimisation: the α-quantile of the risks (the paper, Algorithm 1).

    Args:
        alpha: the level, as a number, a ``Level`` or a text: ``0.9``, ``"1-e^-1000"``.
        distribution: how the risk distribution is estimated: ``"kde"``, ``"gaussian"``,
            ``"empirical"``, ``"lognormal"``, or anything that takes risks and returns an
            object with a differentiable ``icdf`` (Algorithm 1, note i).
        bandwidth: the KDE's rule, a number or a function; see :class:`eqrm.KDE`.
        weights: a weight per domain, in the order of their ids (or sorted names).
        memory: a :class:`~eqrm.objectives.risk_memory.RiskMemory` for batches that hold a few
            of many domains. It is used and filled in training mode only.
        options: further arguments of the distribution, such as ``{"gradient": "bisection"}``.

    ``objective(losses, domains)`` is the one line for a training loop:

    >>> losses = torch.tensor([0.2, 0.4, 0.9, 0.7], requires_grad=True)
    >>> loss = EQRM(alpha=0.9)(losses, ["Oslo", "Oslo", "Rome", "Rome"])
    >>> loss.backward()
    >>> round(loss.item(), 4)
    1.0839
    """

    name = "eqrm"
    hyperparameters: ClassVar[Hyperparameters] = {
        "alpha": Hyperparameter(0.75, "the level α", LEVEL, Uniform(0.5, 0.99)),
    }

    def __init__(
        self,
        alpha: Level | float | str = 0.75,
        distribution: str | Estimator = "kde",
        bandwidth: str | float | Bandwidth | BandwidthFunction = "gaussian-optimal",
        *,
        weights: Tensor | None = None,
        memory: RiskMemory | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.level = Level.of(self.checked("alpha", alpha))
        self.distribution = resolve_distribution(distribution)
        self.options = dict(options or {})
        if self.distribution is KDE:
            self.options["bandwidth"] = resolve_bandwidth(bandwidth)
            self._warn_without_invariance(self.options["bandwidth"])
        elif bandwidth != "gaussian-optimal":
            raise SettingError(
                f"Only distribution='kde' has a bandwidth, but distribution={distribution!r} came "
                f"with bandwidth={bandwidth!r}."
            )
        if self.distribution is not Empirical:
            self.level.interior(f"distribution={distribution!r}")
        self.register_buffer("domain_weights", weights, persistent=False)
        self.memory = memory

    def _warn_without_invariance(self, rule: Bandwidth) -> None:
        if self.level.log_tail < INVARIANCE_TAIL and not rule.forces_invariance:
            warnings.warn(
                f"At alpha = {self.level} EQRM is meant to equalise the risks of all domains, but "
                f"with the bandwidth {rule} a bandwidth of 0 leaves them free to differ "
                "(the paper, appendix C). Use bandwidth='gaussian-optimal' or 'scott'.",
                InvarianceWarning,
                stacklevel=3,
            )

    def recommended_phases(self) -> tuple[RecommendedPhase, ...]:
        """ERM first, then EQRM with a fresh Adam and a small learning rate (DomainBed's EQRM)."""
        return (
            RecommendedPhase(
                "erm",
                steps=2500,
                note="burn-in",
                steps_space=LogUniform(10, 2.5, 3.5, integer=True),
            ),
            RecommendedPhase(
                "eqrm",
                steps=None,
                learning_rate=1e-6,
                learning_rate_space=LogUniform(10, -7, -5),
                fresh_optimizer=True,
                loss_scaling="gradient-norm-ratio",
                note="the published code divides the loss once at the switch",
            ),
        )

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """F⁻¹(α) of the distribution estimated from the risks (m,)."""
        weights = self._with_domain_weights(risks, weights)
        quantile = self._value(estimate(self.distribution, risks, weights, self.options))
        self._report_below_risks(quantile, risks, weights)
        return quantile

    def _value(self, distribution: Any) -> Tensor:
        value: Tensor = distribution.icdf(self.level)
        return value

    def _with_domain_weights(self, risks: Tensor, weights: Tensor | None) -> Tensor | None:
        own: Tensor | None = self.domain_weights  # type: ignore[assignment]
        if own is None:
            return weights
        if own.shape != risks.shape:
            raise DomainDataError(
                f"EQRM was given weights for {tuple(own.shape)} domains, but there are risks of "
                f"{tuple(risks.shape)}. Pass num_domains, so that absent domains keep their place."
            )
        return own if weights is None else own * weights

    def _report_below_risks(self, quantile: Tensor, risks: Tensor, weights: Tensor | None) -> None:
        """Say once that the quantile extrapolates below all risks (only possible for α < ½)."""
        if self.level.alpha >= 0.5 or self.distribution is Empirical:
            return
        if torch.compiler.is_compiling() or risks.device.type != "cpu":
            return
        seen = risks if weights is None else risks[weights > 0]
        if seen.numel() > 1 and bool(quantile.detach() < seen.detach().min()):
            warnings.warn(
                f"The quantile at alpha = {self.level} is {float(quantile):.6g}, below the "
                f"smallest risk {float(seen.min()):.6g}. Minimising it rewards risks that are far "
                "apart, and it may have no minimum. Use distribution='empirical' or a higher "
                "alpha.",
                QuantileBelowRisksWarning,
                stacklevel=2,
            )

    def of_batch(self, risks: DomainRisks) -> Tensor:
        """With a memory and in training mode, the quantile over all remembered domains."""
        if self.memory is None or not self.training:
            return super().of_batch(risks)
        return self.memory.estimate(self.of_risks, risks)

    def forward(self, losses: Tensor, domains: Any, num_domains: int | None = None) -> Tensor:
        """The objective of a batch: losses (n,), one domain (integer or string) per example."""
        if self.memory is not None and num_domains is None:
            num_domains = self.memory.num_domains
        return super().forward(losses, domains, num_domains)


class Superquantile(EQRM):
    """The mean risk beyond the α-quantile, CVaR (the paper, appendix F, Eq. F.1).

    With the empirical distribution it is the mean of the worst share 1−α of the domains: the
    mean risk at α = 0, the largest risk as α → 1, where it meets GroupDRO's worst case.

    >>> Superquantile(0.5).of_risks(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(3.5000)
    """

    name = "superquantile"

    def __init__(
        self,
        alpha: Level | float | str = 0.75,
        distribution: str | Estimator = "empirical",
        bandwidth: str | float | Bandwidth | BandwidthFunction = "gaussian-optimal",
        *,
        weights: Tensor | None = None,
        memory: RiskMemory | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            alpha, distribution, bandwidth, weights=weights, memory=memory, options=options
        )

    def _value(self, distribution: Any) -> Tensor:
        value: Tensor = distribution.superquantile(self.level)
        return value


class VREx(RiskObjective):
    """Variance risk extrapolation (Krueger et al. 2021, Eq. 8): mean + β·variance of the risks.

    As in its published code the variance is the mean squared deviation, divided by m.
    DomainBed trains 500 steps with β = 1 first.

    >>> VREx(penalty_weight=1.0).of_risks(torch.tensor([1.0, 3.0]))
    tensor(3.)
    """

    name = "vrex"
    hyperparameters: ClassVar[Hyperparameters] = {
        "penalty_weight": Hyperparameter(
            10.0, "weight β of the variance of the risks", NON_NEGATIVE, LogUniform(10, -1, 5)
        ),
    }

    def __init__(self, penalty_weight: float = 10.0) -> None:
        super().__init__()
        self.penalty_weight = self.checked("penalty_weight", penalty_weight)

    def recommended_phases(self) -> tuple[RecommendedPhase, ...]:
        """500 steps with β = 1, then β and a fresh Adam (DomainBed)."""
        return (
            RecommendedPhase(
                self.name,
                steps=500,
                hyperparameters={"penalty_weight": 1.0},
                note="annealing",
                steps_space=LogUniform(10, 0, 4, integer=True),
            ),
            RecommendedPhase(self.name, steps=None, fresh_optimizer=True),
        )

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """R̄ + β Σ p_i (R_i − R̄)²."""
        p = torch.full_like(risks, 1.0 / risks.numel()) if weights is None else weights
        mean = (p * risks).sum()
        value: Tensor = mean + self.penalty_weight * (p * (risks - mean) ** 2).sum()
        return value.to(risks.dtype)


class GroupDRO(RiskObjective):
    """Group distributionally robust optimisation (Sagawa et al. 2020, Algorithm 1).

    Keeps a weight per domain that follows exponentiated gradient ascent,
    q_e ← q_e·exp(η R_e)/Σ, and minimises Σ q_e R_e. Weights move in training mode only, and
    only those of the domains in the batch; absent domains keep theirs.

    >>> dro = GroupDRO(step_size=1.0)
    >>> loss = dro.of_risks(torch.tensor([0.0, 1.0]))
    >>> dro.domain_weights
    tensor([0.2689, 0.7311], dtype=torch.float64)
    """

    name = "groupdro"
    hyperparameters: ClassVar[Hyperparameters] = {
        "step_size": Hyperparameter(
            0.01, "step size η of the domains' weights", POSITIVE, LogUniform(10, -3, -1)
        ),
    }
    domain_weights: Tensor

    def __init__(self, step_size: float = 0.01) -> None:
        super().__init__()
        self.step_size = self.checked("step_size", step_size)
        self.register_buffer("domain_weights", torch.zeros(0, dtype=torch.float64))

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        """Start from equal weights for ``num_domains`` domains."""
        start = torch.full((num_domains,), 1.0 / num_domains, dtype=torch.float64)
        self.domain_weights = start.to(next(predictor.parameters()).device)
        return super().prepare(predictor, num_domains)

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """Σ q_e R_e over the domains present, after the step on q."""
        if self.domain_weights.numel() == 0:
            uniform = torch.full_like(risks, 1.0 / risks.numel(), dtype=torch.float64)
            self.domain_weights = uniform.detach()
        if self.domain_weights.shape != risks.shape:
            raise DomainDataError(
                f"GroupDRO follows {self.domain_weights.numel()} domains, but {risks.numel()} "
                "risks came. Pass num_domains, so that absent domains keep their place."
            )
        present = None if weights is None else weights > 0
        if self.training:
            # The largest risk cancels in the division; without it exp could overflow.
            growth = risks.detach().to(torch.float64)
            growth = (self.step_size * (growth - growth.max())).exp()
            if present is not None:
                growth = torch.where(present, growth, self._unmoved(risks))
            moved = self.domain_weights * growth
            self.domain_weights = moved / moved.sum()
        q = self.domain_weights
        if present is not None:
            q = torch.where(present, q, 0.0)
            q = q / q.sum()
        value: Tensor = (q * risks).sum()
        return value.to(risks.dtype)

    def _unmoved(self, risks: Tensor) -> Tensor:
        largest = risks.detach().to(torch.float64).max()
        return (-self.step_size * largest).exp()


def resolve_distribution(distribution: str | Estimator) -> Estimator:
    """The class behind a name, or the user's own.

    >>> resolve_distribution("gaussian").__name__
    'Gaussian'
    """
    if isinstance(distribution, str):
        if distribution not in DISTRIBUTIONS:
            raise SettingError(
                f"There is no distribution {distribution!r}. "
                f"{did_you_mean(distribution, DISTRIBUTIONS)} A class with a differentiable icdf "
                "will do too."
            )
        return DISTRIBUTIONS[distribution]
    if not callable(distribution):
        raise SettingError(
            "distribution must be a name or a class that takes the risks and has a "
            f"differentiable icdf, not {type(distribution).__name__}."
        )
    return distribution


def estimate(
    distribution: Estimator, risks: Tensor, weights: Tensor | None, options: dict[str, Any]
) -> Any:
    """The distribution of these risks; ``weights`` are passed only where there are any."""
    if weights is None:
        return distribution(risks, **options)
    return distribution(risks, weights=weights, **options)
