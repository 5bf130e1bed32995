"""Objectives that are functions of the domains' risks: ERM, EQRM, Superquantile, GroupDRO, VREx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor

from eqrm.checks import NON_NEGATIVE, POSITIVE
from eqrm.distributions.bandwidths import (
    Bandwidth,
    BandwidthFunction,
    SigmaRule,
    resolve_bandwidth,
)
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.kernel import KDE
from eqrm.errors import DomainDataError, SettingError
from eqrm.level import Level
from eqrm.measures import (
    UNBOUNDED,
    Estimator,
    below_one,
    estimate,
    quantile_at,
    resolve_distribution,
    takes_weights,
)
from eqrm.objectives.base import Phase, annealing
from eqrm.objectives.hyperparameters import LogUniformSpace, UniformSpace, hyperparameter
from eqrm.objectives.risk_memory import RiskMemory
from eqrm.objectives.risk_objective import (
    Kernel,
    KernelResult,
    RiskObjective,
    keep_state,
    refuse_bad_risks,
)
from eqrm.objectives.training_warnings import LowQuantileWatch, warn_without_invariance
from eqrm.predictors.base import Predictor
from eqrm.risks import DomainRisks


class ERM(RiskObjective):
    """Empirical risk minimisation (Vapnik 1992): the mean of the domains' risks.

    Every domain counts once, however many examples it has.

    >>> ERM()(torch.tensor([1.0, 3.0, 6.0]), ["a", "a", "b"])
    tensor(4.)
    """

    name = "erm"
    capturable = True
    watches_batches = False  # a mean is the same over any batches

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """Σ p_i R_i."""
        return risks.mean() if weights is None else (weights * risks).sum().to(risks.dtype)

    def kernel(self, num_domains: int) -> Kernel | None:
        from eqrm.gpu.objectives import mean_and_variance

        return lambda totals, size, dtype: KernelResult(
            *mean_and_variance(totals, size, 0.0, dtype), self.of_batch
        )


@dataclass(eq=False, repr=False)
class EQRM(RiskObjective):
    """Empirical quantile risk minimisation (Eastwood et al. 2022, Algorithm 1).

    Minimises the α-quantile of the risk over domains, estimated from the domains at hand.

    Args:
        alpha: the level, as a number, a ``Level`` or a string: ``0.9``, ``"1-e^-1000"``.
        distribution: how the risk distribution is estimated: ``"kde"``, ``"gaussian"``,
            ``"empirical"``, ``"lognormal"``, or anything that takes risks (and ``weights``,
            where domains may be absent) and returns an object with a differentiable ``icdf``
            (Algorithm 1, note i).
        bandwidth: the KDE's rule, a number or a function; see :class:`eqrm.KDE`.
        weights: a weight per domain, in the order of their ids (or sorted names).
        memory: a :class:`~eqrm.objectives.risk_memory.RiskMemory` for batches that hold a few
            of many domains. It is used and filled in training mode only.
        options: further arguments of the distribution, such as ``{"gradient": "bisection"}``.

    >>> losses = torch.tensor([0.2, 0.4, 0.9, 0.7], requires_grad=True)
    >>> loss = EQRM(alpha=0.9)(losses, ["Oslo", "Oslo", "Rome", "Rome"])
    >>> loss.backward()
    >>> round(loss.item(), 4)
    1.0839
    """

    name = "eqrm"
    capturable = True
    alpha: Level | float | str = hyperparameter(0.9, "the level α", space=UniformSpace(0.5, 0.99))
    distribution: str | Estimator = hyperparameter(
        "kde", "how the distribution of the risk is estimated"
    )
    bandwidth: str | float | Bandwidth | BandwidthFunction = hyperparameter(
        "gaussian-optimal", "the rule for the KDE's bandwidth"
    )
    _: KW_ONLY
    weights: Tensor | None = None
    memory: RiskMemory | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.level = Level.of(self.alpha)
        self.estimator = resolve_distribution(self.distribution)
        self._takes_weights = takes_weights(self.estimator)
        self._arguments = dict(self.options or {})
        if self.estimator is KDE:
            rule = self._arguments["bandwidth"] = resolve_bandwidth(self.bandwidth)
            warn_without_invariance(self.level, rule, stacklevel=3)
        elif self.bandwidth != "gaussian-optimal":
            raise SettingError(
                "Only distribution='kde' has a bandwidth, but bandwidth="
                f"{self.bandwidth!r} was given with distribution={self.distribution!r}."
            )
        if self.estimator in UNBOUNDED:
            self._refuse_level(f"distribution={self.distribution!r}")
        own = None if self.weights is None else torch.as_tensor(self.weights, dtype=torch.float64)
        self.register_buffer("domain_weights", own, persistent=False)
        if self.weights is not None and self.memory is not None and self.memory.denoise:
            raise SettingError(
                "A memory with denoise=True measures noise over domains that all count the same, "
                "so it cannot be combined with weights. Leave out weights, or set denoise=False."
            )
        self._watch = LowQuantileWatch(self.level)

    def _refuse_level(self, what: str) -> None:
        self.level.interior(what)

    def recommended_phases(self) -> tuple[Phase, ...]:
        """ERM first, then EQRM with a fresh Adam and a small learning rate, as in DomainBed."""
        burn_in = LogUniformSpace(10, 2.5, 3.5, integer=True)
        return (
            Phase("erm", steps=2500, search={"steps": burn_in}),
            Phase(learning_rate=1e-6, search={"learning_rate": LogUniformSpace(10, -7, -5)}),
        )

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """F⁻¹(α) of the distribution estimated from the risks (m,)."""
        quantile: Tensor = quantile_at(self._estimated(risks, weights), self.level)
        self._watch.look(quantile, risks, self._with_domain_weights(risks, weights))
        return quantile

    def _estimated(self, risks: Tensor, weights: Tensor | None) -> Any:
        weights = self._with_domain_weights(risks, weights)
        if weights is not None and not self._takes_weights:
            raise SettingError(
                f"The distribution {self.distribution!r} takes no weights, which domains absent "
                "from a batch (num_domains, a memory) need. Give it an argument 'weights'."
            )
        return estimate(self.estimator, risks, weights, self._arguments)

    def _with_domain_weights(self, risks: Tensor, weights: Tensor | None) -> Tensor | None:
        own: Tensor | None = self.domain_weights  # type: ignore[assignment]
        if own is None:
            return weights
        if own.shape[-1] != risks.shape[-1]:
            raise DomainDataError(
                f"EQRM has weights for {own.shape[-1]} domains, but got the risks of "
                f"{risks.shape[-1]}. Pass num_domains, so that absent domains keep their place."
            )
        return own if weights is None else own * weights

    def of_batch(self, risks: DomainRisks) -> Tensor:
        """With a memory and in training mode, the quantile over all remembered domains."""
        if self.memory is None or not self.training:
            return super().of_batch(risks)
        refuse_bad_risks(risks.values)  # before they are remembered
        return self.memory.estimate(self.of_risks, risks)

    def kernel(self, num_domains: int) -> Kernel | None:
        """For the KDE with a rule that follows the spread of the risks."""
        rule = self._arguments.get("bandwidth")
        own = self.options or self.weights is not None
        watched = self.level.alpha < LowQuantileWatch.possible_below
        if not isinstance(rule, SigmaRule) or own or watched:
            return None
        from eqrm.distributions.kde.triton_quantile import quantile_of_totals, quantile_with_slopes

        settings = (rule.constant, self.level)
        if self.memory is not None and self.training:
            return self.memory.kernel(
                num_domains, self.of_risks, lambda r, p: quantile_with_slopes(r, p, *settings)
            )
        return lambda totals, size, dtype: KernelResult(
            *quantile_of_totals(totals, size, *settings, dtype), self.of_batch
        )

    def forward(self, losses: Tensor, domains: Any, num_domains: int | None = None) -> Tensor:
        if self.memory is not None and num_domains is None:
            num_domains = self.memory.num_domains
        return super().forward(losses, domains, num_domains)


del EQRM.memory  # a default on the class would hide the module that nn.Module keeps elsewhere


@dataclass(eq=False, repr=False)
class Superquantile(EQRM):
    """The mean risk beyond the α-quantile, CVaR (Rockafellar & Uryasev 2000; appendix F).

    With the empirical distribution it is the mean of the worst share 1−α of the domains: the
    mean risk at α = 0, the largest risk as α → 1, where it meets GroupDRO's worst case.

    >>> Superquantile(0.5).of_risks(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(3.5000)
    """

    name = "superquantile"
    capturable = True
    distribution: str | Estimator = hyperparameter(
        "empirical", "how the distribution of the risk is estimated"
    )

    def _refuse_level(self, what: str) -> None:
        below_one(self.level, what)  # at 0 it is the mean, which every distribution has

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        value: Tensor = self._estimated(risks, weights).superquantile(self.level)
        return value

    def kernel(self, num_domains: int) -> Kernel | None:
        """For the empirical law of not too many domains that count the same."""
        own = self.options or self.weights is not None or self.memory is not None
        if self.estimator is not Empirical or own:
            return None
        from eqrm.gpu.objectives import MOST_SEARCHED, worst_share

        if num_domains > MOST_SEARCHED:
            return None
        return lambda totals, size, dtype: KernelResult(
            *worst_share(totals, size, self.level.tail, dtype), self.of_batch
        )


@dataclass(eq=False, repr=False)
class VREx(RiskObjective):
    """Variance risk extrapolation (Krueger et al. 2021, Eq. 8): mean + β·variance of the risks.

    As in its published code the variance is the mean squared deviation, divided by m.

    >>> VREx(penalty_weight=1.0).of_risks(torch.tensor([1.0, 3.0]))
    tensor(3.)
    """

    name = "vrex"
    capturable = True
    penalty_weight: float = hyperparameter(
        10.0, "weight β of the variance of the risks", NON_NEGATIVE, LogUniformSpace(10, -1, 5)
    )

    def recommended_phases(self) -> tuple[Phase, ...]:
        return annealing()

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """R̄ + β Σ p_i (R_i − R̄)²."""
        p = torch.full_like(risks, 1.0 / risks.numel()) if weights is None else weights
        mean = (p * risks).sum()
        value: Tensor = mean + self.penalty_weight * (p * (risks - mean) ** 2).sum()
        return value.to(risks.dtype)

    def kernel(self, num_domains: int) -> Kernel | None:
        from eqrm.gpu.objectives import mean_and_variance

        return lambda totals, size, dtype: KernelResult(
            *mean_and_variance(totals, size, self.penalty_weight, dtype), self.of_batch
        )


@dataclass(eq=False, repr=False)
class GroupDRO(RiskObjective):
    """Group distributionally robust optimisation (Sagawa et al. 2020, Algorithm 1).

    Keeps a weight per domain that follows exponentiated gradient ascent,
    q_e ← q_e·exp(η R_e)/Σ, and minimises Σ q_e R_e. Weights move in training mode only.

    A domain absent from the batch has no risk to grow by. What the k domains present
    contribute is multiplied by m/k, so that for batches that draw domains uniformly the
    gradient is on average that of Σ q_e R_e over all m (Algorithm 1 is k = 1, up to m).

    >>> dro = GroupDRO(step_size=1.0)
    >>> loss = dro.of_risks(torch.tensor([0.0, 1.0]))
    >>> dro.domain_weights
    tensor([0.2689, 0.7311], dtype=torch.float64)
    """

    name = "groupdro"
    capturable = True
    watches_batches = False  # its weights average over many batches
    step_size: float = hyperparameter(
        0.01, "step size η of the domains' weights", POSITIVE, LogUniformSpace(10, -3, -1)
    )
    domain_weights: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.register_buffer("domain_weights", torch.zeros(0, dtype=torch.float64))

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        start = torch.full((num_domains,), 1.0 / num_domains, dtype=torch.float64)
        self.domain_weights = start.to(next(predictor.parameters()).device)
        return super().prepare(predictor, num_domains)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Take the number of domains from the saved weights, if none were followed yet."""
        saved = state_dict.get(prefix + "domain_weights")
        if saved is not None and self.domain_weights.numel() == 0:
            self.domain_weights = torch.zeros_like(saved)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """(m/k)·Σ q_e R_e over the k domains of non-zero weight, after the step on q."""
        present = torch.ones_like(risks, dtype=torch.bool) if weights is None else weights > 0
        self._follow(risks.numel(), risks.device)
        if self.training:
            self._ascend(torch.where(present, risks.detach().to(torch.float64), 0.0))
        q = torch.where(present, self.domain_weights, 0.0)
        value: Tensor = (q * risks).sum() * (risks.numel() / present.sum())
        return value.to(risks.dtype)

    def kernel(self, num_domains: int) -> Kernel | None:
        """Always there; the weights are moved in place."""
        from eqrm.gpu.objectives import followed_weights

        rate = self.step_size if self.training else None

        def followed(totals: Tensor, size: int, dtype: torch.dtype) -> KernelResult:
            self._follow(size, totals.device)
            value, slopes = followed_weights(totals, size, self.domain_weights, rate, dtype)
            return KernelResult(value, slopes, lambda batch: (slopes * batch.values).sum())

        return followed

    def _follow(self, size: int, device: torch.device) -> None:
        """Start from equal weights if none were followed yet."""
        if self.domain_weights.numel() == 0:
            start = torch.full((size,), 1.0 / size, dtype=torch.float64, device=device)
            self.domain_weights = start
        if self.domain_weights.shape != (size,):
            raise DomainDataError(
                f"GroupDRO follows {self.domain_weights.numel()} domains, but got {size} risks. "
                "Pass num_domains, so that absent domains keep their place."
            )

    def _ascend(self, risks: Tensor) -> None:
        # The largest exponent cancels in the division; with it exp could overflow.
        moved = self.domain_weights * (self.step_size * (risks - risks.max())).exp()
        moved = moved / moved.sum()
        # A batch that overflowed (mixed precision skips it) must not spoil the weights for good.
        moved = torch.where(moved.isfinite().all(), moved, self.domain_weights)
        keep_state(self, "domain_weights", moved)


@dataclass(eq=False, repr=False)
class DomainBedEQRM(EQRM):
    """EQRM as published (Eastwood et al. 2022): the gradient through bisection, and h = 1.06·….

    The result is not the gradient of the quantile (:class:`eqrm.KDE` describes it), and the rule
    for the bandwidth rounds (4/3)^⅕ to 1.06.

    In DomainBed's random searches the length of the burn-in is not an integer and is compared by
    ==, so Adam is not reset and the learning rate of EQRM is never used, which the paper does not
    say. Here the burn-in is an integer, as DomainBed's default (2500) is, and the switch happens.
    """

    preset = "domainbed"
    alpha: Level | float | str = hyperparameter(0.75, "the level α", space=UniformSpace(0.5, 0.99))
    bandwidth: str | float | Bandwidth | BandwidthFunction = hyperparameter(
        "gaussian-optimal-1.06", "the rule for the KDE's bandwidth"
    )
    options: Mapping[str, Any] | None = field(
        default_factory=lambda: {"gradient": "bisection"}, kw_only=True
    )
