"""What the statistics take: one number per domain, checked once and alike everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eqrm.errors import DomainDataError, LevelError, SettingError, TooFewDomainsError
from eqrm.level import Level

Vector = npt.NDArray[np.float64]
LevelLike = Level | float | str


def checked_risks(risks: Any, what: str = "Risks", at_least: int = 2) -> Vector:
    """A finite risk per domain as float64 (m,), with m at least 2.

    >>> checked_risks([1, 2])
    array([1., 2.])
    """
    values = _vector(risks, what)
    if values.size == 0:
        raise DomainDataError(f"{what} are empty: there must be one number per domain.")
    _refuse_non_finite(values, "risk")
    if values.size < at_least:
        raise TooFewDomainsError(
            f"{values.size} domain says nothing about others: "
            f"at least {at_least} domains are needed.",
            domains=values.size,
            needed=at_least,
        )
    return values


def checked_counts(counts: Any, domains: int) -> Vector:
    """Examples per domain (m,), or one number for all; whole and at least 1."""
    values = per_domain(counts, "counts", domains)
    wrong = ~((values >= 1.0) & (values == np.floor(values)) & np.isfinite(values))
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        raise DomainDataError(
            f"Domain {index} has {values[index]:g} examples. counts must be whole numbers, at "
            "least 1: drop domains that were not measured.",
            index=(index,),
        )
    return values


def checked_variances(variances: Any, domains: int, what: str = "variances") -> Vector:
    """A finite number that is not negative per domain (m,), or one for all."""
    values = per_domain(variances, what, domains)
    _refuse_non_finite(values, what)
    if (values < 0.0).any():
        index = int(np.flatnonzero(values < 0.0)[0])
        raise DomainDataError(
            f"{what} must not be negative, but for domain {index} it is {values[index]:g}.",
            index=(index,),
        )
    return values


def checked_confidence(confidence: float) -> float:
    """A confidence strictly between 0 and 1.

    >>> checked_confidence(95)
    Traceback (most recent call last):
    ...
    eqrm.errors.SettingError: confidence must lie strictly between 0 and 1, such as 0.95, ...
    """
    try:
        value = float(confidence)
    except (TypeError, ValueError):
        value = np.nan
    if not 0.0 < value < 1.0:
        raise SettingError(
            f"confidence must lie strictly between 0 and 1, such as 0.95, but it is {confidence!r}."
        )
    return value


def as_levels(levels: LevelLike | Sequence[LevelLike]) -> list[Level]:
    """One level or several, as a list.

    >>> as_levels(0.9), as_levels([0.5, "1-e^-1000"])
    ([Level(0.9)], [Level(0.5), Level(log_tail=-1000.0)])
    """
    if isinstance(levels, (Level, str, float, int)):
        return [Level.of(levels)]
    return [Level.of(level) for level in levels]


def checked_alpha(alpha: LevelLike) -> float:
    """A level strictly between 0 and 1, as the number α.

    >>> checked_alpha("0.9")
    0.9
    """
    level = Level.of(alpha)
    if not 0.0 < level.alpha < 1.0:
        raise LevelError(
            f"A statement about unseen domains needs a level strictly between 0 and 1, but alpha "
            f"is {level}: no number of domains bounds the largest risk there is."
        )
    return float(alpha) if isinstance(alpha, (int, float)) else level.alpha


def checked_threshold(threshold: float) -> float:
    """A risk to compare with: a number, not NaN.

    >>> checked_threshold("0.3")
    0.3
    """
    try:
        value = float(threshold)
    except (TypeError, ValueError):
        value = np.nan
    if np.isnan(value):
        raise SettingError(f"The threshold must be a risk, a number, but it is {threshold!r}.")
    return value


def _vector(values: Any, what: str) -> Vector:
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(f"{what} must be numbers, one per domain.") from None
    if array.ndim != 1:
        raise DomainDataError(
            f"{what} must be a vector with one number per domain, but their shape is {array.shape}."
        )
    return array


def per_domain(values: Any, what: str, domains: int) -> Vector:
    """One number per domain (m,), or one for all of them.

    >>> per_domain(3, "counts", 2)
    array([3., 3.])
    """
    if np.ndim(values) == 0:
        values = np.full(domains, values)
    array = _vector(values, what)
    if array.size != domains:
        raise DomainDataError(
            f"There must be one number per domain: {what} has {array.size}, risks {domains}."
        )
    return array


def _refuse_non_finite(values: Vector, what: str) -> None:
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        index = int(wrong[0])
        raise DomainDataError(
            f"The {what} of domain {index} is {values[index]}. It must be finite: "
            "check the losses of this domain for NaN or overflow.",
            index=(index,),
        )
