"""What every estimated law of the risk of a new domain can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from eqrm.arrays import Values, as_array, detached, exp, first_place, in_type, refuse_masked
from eqrm.distributions.kde import native
from eqrm.distributions.moments import Moments, moments
from eqrm.errors import DomainDataError
from eqrm.execution import being_transformed, can_read, has_kernels, is_tensor, namespace
from eqrm.level import Level

LevelLike = Level | float | str


class RiskDistribution(ABC):
    """The law of the risk of a new domain, estimated from the risks of m domains.

    ``risks`` has shape ``(..., m)``: leading dimensions are separate distributions. Of an array or
    a list everything is an array (or a number); of a tensor, a tensor with its gradient. Optional
    ``weights`` (m,) or ``(..., m)`` weigh the domains; they are constants (no gradient flows
    into them), and a domain of weight 0 is ignored. Everything is computed in float64 and
    returned in the dtype of the risks.

    In memory of the host bad risks are refused. On other devices that would cost a synchronisation:
    there a bad risk gives NaN, unless ``validate=True``.

    It is immutable: new risks make a new distribution. A subclass implements :meth:`quantile` and,
    where possible, the other methods.
    """

    def __init__(
        self,
        risks: Values | Sequence[float],
        *,
        weights: Values | Sequence[float] | None = None,
        validate: bool | None = None,
    ) -> None:
        self._risks = _checked_shape(_as_values(risks, "Risks"))
        self._raw_weights: Values | None = None
        if validate is None:
            validate = not is_tensor(self._risks) or can_read(self._risks)
        self._validate = validate
        if weights is not None:
            self._raw_weights = _checked_weights(weights, self._risks, validate)
        if validate:
            self._refuse_bad_risks()

    @property  # torch.compile cannot trace a cached one
    def _given_weights(self) -> Values | None:
        """p, summing to 1; None stands for equal weights."""
        raw = self._raw_weights
        return raw if raw is None or not _are_raw(raw, self._validate) else _shares(raw)

    @property
    def risks(self) -> Values:
        """The risks it was estimated from, shape ``(..., m)``."""
        return self._risks

    @property
    def weights(self) -> Values:
        """p, float64, broadcastable to the risks, summing to 1 over the last dimension."""
        if self._given_weights is not None:
            return self._given_weights
        xp, row = namespace(self._risks), self._risks.reshape(-1, self._risks.shape[-1])[0]
        return xp.full_like(row, 1.0 / len(row), dtype=xp.float64)

    # What carries a graph is computed anew for each use: a cached tensor would outlive the
    # backward pass that frees its graph, or lack one if it was first asked for under no_grad.

    @property
    def _wide(self) -> Values:
        """The risks in float64, absent domains set to 0 so that they cannot spoil a sum."""
        xp, given = namespace(self._risks), self._given_weights
        risks = in_type(self._risks, xp.float64)
        if self._validate and is_tensor(risks) and risks.requires_grad:
            risks = risks.view_as(risks)  # a tensor of its own: others must not have its hook
            risks.register_hook(self._refuse_endless)
        return risks if given is None else xp.where(given > 0, risks, 0.0)

    @property
    def _moments(self) -> Moments:
        return moments(self._wide, self._given_weights)

    def _back(self, value: Values) -> Values:
        """To the dtype of the risks; refuses what that dtype cannot hold."""
        result = in_type(value, self._risks.dtype)
        if self._validate and result.dtype != value.dtype:
            xp = namespace(result)
            self._refuse_overflow(xp.isinf(result) & xp.isfinite(value))
        return result if is_tensor(result) else result[()]

    def _finite(self, value: Values) -> Values:
        """A quantile in the dtype of the risks; refuses one that is too large for it."""
        dtype = self._risks.dtype
        result = value if value.dtype == dtype else in_type(value, dtype)
        # A number is cheaper to look at than a tensor.
        if self._validate and not (result.ndim == 0 and math.isfinite(result.item())):
            self._refuse_overflow(~namespace(result).isfinite(result))
        return result if is_tensor(result) else result[()]

    def _refuse_overflow(self, lost: Values) -> None:
        if bool(lost.any()):
            dtype = self._risks.dtype
            remedy = "smaller units" if "float64" in str(dtype) else "float32 or float64"
            raise DomainDataError(
                f"The result is too large for {dtype}. Pass the risks in {remedy}."
            )

    def _refuse_endless(self, gradient: Values | None) -> None:
        """A hook of autograd: refuse a gradient that is NaN, or too large for the dtype."""
        if gradient is None:  # nothing flows here
            return
        held = in_type(gradient.detach(), self._risks.dtype)
        if not math.isfinite(_total(held)) and not bool(held.isfinite().all()):
            raise DomainDataError(
                f"The gradient in the risks is too large for {self._risks.dtype}, or for float64 "
                "on the way to it. Pass the risks in smaller units, or in float64."
            )

    def _points(self, x: Values | float) -> Values:
        """``x`` in float64 with a last dimension to set against the risks."""
        if is_tensor(self._risks):
            torch = namespace(self._risks)
            return torch.as_tensor(x, dtype=torch.float64, device=self._risks.device)[..., None]
        return np.asarray(x, dtype=np.float64)[..., None]

    @abstractmethod
    def quantile(self, alpha: LevelLike) -> Values:
        """F⁻¹(α), shape ``risks.shape[:-1]``, differentiable in the risks."""

    def icdf(self, alpha: LevelLike) -> Values:
        """The same as :meth:`quantile`, under the name of ``torch.distributions``."""
        return self.quantile(alpha)

    @abstractmethod
    def superquantile(self, alpha: LevelLike) -> Values:
        """The mean risk beyond the α-quantile (CVaR), shape ``risks.shape[:-1]``."""

    @abstractmethod
    def log_sf(self, x: Values | float) -> Values:
        """log P(risk > x); ``x`` broadcasts against ``risks.shape[:-1]``."""

    @abstractmethod
    def cdf(self, x: Values | float) -> Values:
        """P(risk ≤ x)."""

    def sf(self, x: Values | float) -> Values:
        """P(risk > x), exact in the upper tail where 1 − cdf is not."""
        return exp(self.log_sf(x))

    @abstractmethod
    def log_prob(self, x: Values | float) -> Values:
        """The log density at ``x`` (log mass where the law is discrete)."""

    @property
    def mean(self) -> Values:
        """The mean of the law, shape ``risks.shape[:-1]``."""
        return self._back(self._moments.mean[..., 0])

    @property
    @abstractmethod
    def std(self) -> Values:
        """The standard deviation of the law (for KDE that includes the kernels')."""

    def _refuse_bad_risks(self) -> None:
        # One sum is much cheaper than a look at every risk, and finite if they all are
        # (but for overflow, which the second look tells apart).
        if math.isfinite(_total(self._risks)):
            return
        finite = namespace(self._risks).isfinite(detached(self._risks))
        if self._given_weights is not None:
            finite = finite | (self.weights <= 0)
        if bool(finite.all()):
            return
        self._refuse_risk(
            ~finite, "Risks must be finite: check the losses of this domain for NaN or overflow."
        )

    def _refuse_risk(self, bad: Values, advice: str) -> NoReturn:
        """Name the first bad risk."""
        index = first_place(bad)
        row = f" (in row {index[:-1]})" if len(index) > 1 else ""
        value = float(detached(self._risks)[index])
        raise DomainDataError(f"The risk of {{domain}} is {value}{row}. {advice}", index=index)

    def __repr__(self) -> str:
        shape = tuple(self._risks.shape)
        weighted = ", weighted" if self._given_weights is not None else ""
        return f"{type(self).__name__}(risks of shape {shape}{weighted})"


def standardised(difference: Values, unit: Values) -> Values:
    """difference/unit; with a unit of 0 a step, at which 0 counts as reached."""
    xp, positive = namespace(unit), unit > 0
    z = difference / xp.where(positive, unit, 1.0)
    return xp.where(positive, z, xp.where(difference >= 0, math.inf, -math.inf))


def _total(values: Values) -> float:
    """Σ of all values, which is not finite if one of them is not."""
    if not is_tensor(values):
        return native.total(values)
    if values.dtype.itemsize >= 4 and can_read(values):
        return native.total(values.detach().numpy())
    return float(values.detach().sum())


def _as_values(values: Any, what: str) -> Values:
    if is_tensor(values):
        return values
    refuse_masked(values)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufc":
            return array
    except (TypeError, ValueError, RuntimeError):
        pass
    raise DomainDataError(
        f"{what} must be a tensor, an array or a list of numbers, got {type(values).__name__}."
    )


def _checked_shape(risks: Values) -> Values:
    xp = namespace(risks)
    floating = risks.dtype.is_floating_point if is_tensor(risks) else risks.dtype.kind == "f"
    if not floating:
        if risks.dtype == xp.bool or "int" not in str(risks.dtype):
            raise DomainDataError(f"Risks must be real numbers, got {risks.dtype}.")
        risks = in_type(risks, xp.get_default_dtype() if is_tensor(risks) else np.float64)
    if risks.ndim == 0:
        raise DomainDataError(
            "Risks must be a vector with one risk per domain, got a single number. "
            "For one domain, pass risks.reshape(1)."
        )
    if 0 in risks.shape:
        raise DomainDataError(f"At least one risk is needed, got the shape {tuple(risks.shape)}.")
    return risks


def _checked_weights(weights: Values | Sequence[float], risks: Values, validate: bool) -> Values:
    xp, p = namespace(risks), detached(_as_values(weights, "Weights"))
    p = as_array(p) if xp is np else xp.as_tensor(p, device=risks.device)
    p = in_type(p, xp.float64)
    if p.ndim == 0 or p.shape[-1] != risks.shape[-1] or p.ndim > risks.ndim:
        raise DomainDataError(
            f"There must be one weight per domain: risks have shape {tuple(risks.shape)}, "
            f"weights {tuple(p.shape)}."
        )
    if validate:
        if p.ndim == 1 and (xp is np or p.device.type == "cpu"):
            # Two passes instead of many: the usual case, weights that need no second look.
            total = float(p.sum())
            if 1e-300 < total < math.inf and float(p.min()) >= 0.0:
                return p / total
        bad = ~(p >= 0) | xp.isinf(p)
        if bool(bad.any()):
            index = first_place(bad)
            raise DomainDataError(
                f"The weight of {{domain}} is {float(p[index])}. "
                "Weights must be finite and not negative.",
                index=index,
            )
        if bool((p.sum(axis=-1) <= 0).any()):
            raise DomainDataError("All weights are 0: at least one must be positive.")
    return p if _are_raw(p, validate) else _shares(p)


def _are_raw(weights: Values, validate: bool) -> bool:
    """Whether weights are left as given, because a kernel on a GPU divides them by their sum."""
    return not validate and is_tensor(weights) and not being_transformed() and has_kernels(weights)


def _shares(weights: Values) -> Values:
    # By the largest first, so that the sum cannot overflow.
    p = weights / namespace(weights).amax(weights, axis=-1, keepdims=True)
    return p / p.sum(axis=-1, keepdims=True)
