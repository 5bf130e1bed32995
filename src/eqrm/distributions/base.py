"""What every estimated law of the risk of a new domain can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from eqrm.distributions.kde.native import total
from eqrm.distributions.moments import Moments, moments
from eqrm.errors import DomainDataError
from eqrm.execution import being_transformed, has_kernels
from eqrm.level import Level

LevelLike = Level | float | str


class RiskDistribution(ABC):
    """The law of the risk of a new domain, estimated from the risks of m domains.

    ``risks`` has shape ``(..., m)``: leading dimensions are separate distributions. Optional
    ``weights`` (m,) or ``(..., m)`` weigh the domains; they are constants (no gradient flows
    into them), and a domain of weight 0 is ignored. Everything is computed in float64 and
    returned in the dtype of the risks.

    On the CPU bad risks are refused. On other devices that would cost a synchronisation:
    there a bad risk gives NaN, unless ``validate=True``.

    It is immutable: new risks make a new distribution. A subclass implements :meth:`quantile` and,
    where possible, the other methods.
    """

    def __init__(
        self,
        risks: Tensor | Sequence[float],
        *,
        weights: Tensor | Sequence[float] | None = None,
        validate: bool | None = None,
    ) -> None:
        self._risks = _checked_shape(_as_tensor(risks, "Risks"))
        self._raw_weights: Tensor | None = None
        if validate is None:
            validate = self._risks.device.type == "cpu" and not being_transformed()
        self._validate = validate
        if weights is not None:
            self._raw_weights = _checked_weights(weights, self._risks, validate)
        if validate:
            self._refuse_bad_risks()

    @property  # torch.compile cannot trace a cached one
    def _given_weights(self) -> Tensor | None:
        """p, summing to 1; None stands for equal weights."""
        raw = self._raw_weights
        return raw if raw is None or not _are_raw(raw, self._validate) else _shares(raw)

    @property
    def risks(self) -> Tensor:
        """The risks it was estimated from, shape ``(..., m)``."""
        return self._risks

    @property
    def weights(self) -> Tensor:
        """p, float64, broadcastable to the risks, summing to 1 over the last dimension."""
        if self._given_weights is not None:
            return self._given_weights
        m = self._risks.shape[-1]
        return torch.full((m,), 1.0 / m, dtype=torch.float64, device=self._risks.device)

    # What carries a graph is computed anew for each use: a cached tensor would outlive the
    # backward pass that frees its graph, or lack one if it was first asked for under no_grad.

    @property
    def _wide(self) -> Tensor:
        """The risks in float64, absent domains set to 0 so that they cannot spoil a sum."""
        wide = self._risks.to(torch.float64)
        if self._validate and wide.requires_grad:
            wide = wide.view_as(wide)  # a tensor of its own: others must not have its hook
            wide.register_hook(self._refuse_endless)
        given = self._given_weights
        return wide if given is None else torch.where(given > 0, wide, 0.0)

    @property
    def _moments(self) -> Moments:
        return moments(self._wide, self._given_weights)

    def _back(self, value: Tensor) -> Tensor:
        """To the dtype of the risks; refuses what that dtype cannot hold."""
        result = value.to(self._risks.dtype)
        if self._validate and result.dtype != value.dtype:
            self._refuse_overflow(result.isinf() & value.isfinite())
        return result

    def _finite(self, value: Tensor) -> Tensor:
        """A quantile in the dtype of the risks; refuses one that is too large for it."""
        dtype = self._risks.dtype
        result = value if value.dtype == dtype else value.to(dtype)
        # A number is cheaper to look at than a tensor.
        if self._validate and not (result.ndim == 0 and math.isfinite(result.item())):
            self._refuse_overflow(~result.isfinite())
        return result

    def _refuse_overflow(self, lost: Tensor) -> None:
        if bool(lost.any()):
            dtype = self._risks.dtype
            remedy = "smaller units" if dtype == torch.float64 else "float32 or float64"
            raise DomainDataError(
                f"The result is too large for {dtype}. Pass the risks in {remedy}."
            )

    def _refuse_endless(self, gradient: Tensor | None) -> None:
        """A hook of autograd: refuse a gradient that is NaN, or too large for the dtype."""
        if gradient is None:  # nothing flows here
            return
        held = gradient.detach().to(self._risks.dtype)
        if not math.isfinite(total(held)) and not bool(held.isfinite().all()):
            raise DomainDataError(
                f"The gradient in the risks is too large for {self._risks.dtype}, or for float64 "
                "on the way to it. Pass the risks in smaller units, or in float64."
            )

    def _points(self, x: Tensor | float) -> Tensor:
        """``x`` in float64 with a last dimension to set against the risks."""
        point = torch.as_tensor(x, dtype=torch.float64, device=self._risks.device)
        return point.unsqueeze(-1)

    @abstractmethod
    def quantile(self, level: LevelLike) -> Tensor:
        """F⁻¹(α), shape ``risks.shape[:-1]``, differentiable in the risks."""

    def icdf(self, level: LevelLike) -> Tensor:
        """The same as :meth:`quantile`, under the name of ``torch.distributions``."""
        return self.quantile(level)

    @abstractmethod
    def superquantile(self, level: LevelLike) -> Tensor:
        """The mean risk beyond the α-quantile (CVaR), shape ``risks.shape[:-1]``."""

    @abstractmethod
    def log_sf(self, x: Tensor | float) -> Tensor:
        """log P(risk > x); ``x`` broadcasts against ``risks.shape[:-1]``."""

    @abstractmethod
    def cdf(self, x: Tensor | float) -> Tensor:
        """P(risk ≤ x)."""

    def sf(self, x: Tensor | float) -> Tensor:
        """P(risk > x), exact in the upper tail where 1 − cdf is not."""
        return self.log_sf(x).exp()

    @abstractmethod
    def log_prob(self, x: Tensor | float) -> Tensor:
        """The log density at ``x`` (log mass where the law is discrete)."""

    @property
    def mean(self) -> Tensor:
        """The mean of the law, shape ``risks.shape[:-1]``."""
        return self._back(self._moments.mean.squeeze(-1))

    @property
    @abstractmethod
    def std(self) -> Tensor:
        """The standard deviation of the law (for KDE that includes the kernels')."""

    def _refuse_bad_risks(self) -> None:
        # One sum is much cheaper than a look at every risk, and finite if they all are
        # (but for overflow, which the second look tells apart).
        if math.isfinite(total(self._risks)):
            return
        finite = torch.isfinite(self._risks.detach())
        if self._given_weights is not None:
            finite = finite | (self.weights <= 0)
        if bool(finite.all()):
            return
        self._refuse_risk(
            ~finite, "Risks must be finite: check the losses of this domain for NaN or overflow."
        )

    def _refuse_risk(self, bad: Tensor, advice: str) -> NoReturn:
        """Name the first bad risk."""
        index = tuple(int(i) for i in bad.nonzero()[0])
        row = f" (in row {index[:-1]})" if len(index) > 1 else ""
        value = float(self._risks.detach()[index])
        raise DomainDataError(f"The risk of {{domain}} is {value}{row}. {advice}", index=index)

    def __repr__(self) -> str:
        shape = tuple(self._risks.shape)
        weighted = ", weighted" if self._given_weights is not None else ""
        return f"{type(self).__name__}(risks of shape {shape}{weighted})"


def standardised(difference: Tensor, unit: Tensor) -> Tensor:
    """difference/unit; with a unit of 0 a step, at which 0 counts as reached."""
    positive = unit > 0
    z = difference / torch.where(positive, unit, 1.0)
    return torch.where(positive, z, torch.where(difference >= 0, math.inf, -math.inf))


def _as_tensor(values: Any, what: str, dtype: torch.dtype | None = None) -> Tensor:
    if isinstance(values, Tensor):
        return values
    try:
        return torch.as_tensor(values, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(
            f"{what} must be a tensor or a list of numbers, got {type(values).__name__}."
        ) from None


def _checked_shape(risks: Tensor) -> Tensor:
    if not risks.dtype.is_floating_point:
        if risks.dtype.is_complex or risks.dtype == torch.bool:
            raise DomainDataError(f"Risks must be real numbers, got {risks.dtype}.")
        risks = risks.to(torch.get_default_dtype())
    if risks.ndim == 0:
        raise DomainDataError(
            "Risks must be a vector with one risk per domain, got a single number. "
            "For one domain, pass risks.reshape(1)."
        )
    if risks.shape[-1] == 0 or risks.numel() == 0:
        raise DomainDataError(f"At least one risk is needed, got the shape {tuple(risks.shape)}.")
    return risks


def _checked_weights(weights: Tensor | Sequence[float], risks: Tensor, validate: bool) -> Tensor:
    p = _as_tensor(weights, "Weights", torch.float64).to(risks.device).detach().to(torch.float64)
    if p.ndim == 0 or p.shape[-1] != risks.shape[-1] or p.ndim > risks.ndim:
        raise DomainDataError(
            f"There must be one weight per domain: risks have shape {tuple(risks.shape)}, "
            f"weights {tuple(p.shape)}."
        )
    if validate:
        if p.ndim == 1 and p.device.type == "cpu":
            # Two passes instead of many: the usual case, weights that need no second look.
            total = float(p.sum())
            if 1e-300 < total < math.inf and float(p.min()) >= 0.0:
                return p / total
        bad = ~(p >= 0) | p.isinf()
        if bool(bad.any()):
            index = tuple(int(i) for i in bad.nonzero()[0])
            raise DomainDataError(
                f"The weight of {{domain}} is {float(p[index])}. "
                "Weights must be finite and not negative.",
                index=index,
            )
        if bool((p.sum(-1) <= 0).any()):
            raise DomainDataError("All weights are 0: at least one must be positive.")
    return p if _are_raw(p, validate) else _shares(p)


def _are_raw(weights: Tensor, validate: bool) -> bool:
    """Whether weights are left as given, because a kernel on a GPU divides them by their sum."""
    return not (validate or being_transformed()) and has_kernels(weights)


def _shares(weights: Tensor) -> Tensor:
    p = weights / weights.amax(-1, keepdim=True)  # so that the sum cannot overflow
    return p / p.sum(-1, keepdim=True)
