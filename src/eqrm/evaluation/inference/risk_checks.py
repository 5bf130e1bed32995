"""What every inference takes and returns: levels, one number per domain, results as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from eqrm.errors import DomainDataError, LevelError, SettingError, TooFewDomainsError
from eqrm.level import Level
from eqrm.markup import lines_in_html
from eqrm.text import counted

T = TypeVar("T")
Vector = npt.NDArray[np.float64]
LevelLike = Level | float | str


SAME = 1e-12
"""Relative differences up to this are rounding."""


@dataclass(frozen=True)
class Refused:
    """There is no bound, and why; ``needed`` is how many domains one takes."""

    sentence: str
    needed: float

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"refused": self.sentence}


def or_refused(bound: Callable[..., T], *given: Any, **settings: Any) -> T | Refused:
    """What a function finds, or why there are too few domains for it."""
    try:
        return bound(*given, **settings)
    except TooFewDomainsError as refusal:
        return Refused(str(refusal), refusal.needed)


def as_levels(levels: LevelLike | Sequence[LevelLike]) -> list[Level]:
    """One level or several, as a list."""
    if isinstance(levels, (Level, str, float, int)):
        return [Level.of(levels)]
    return [Level.of(level) for level in levels]


def checked_alpha(alpha: LevelLike) -> float:
    """A level strictly between 0 and 1, as the number α."""
    if isinstance(alpha, float) and 0.0 < alpha < 1.0:
        return float(alpha)
    level = Level.of(alpha)
    if level.log_tail in (0.0, -math.inf):
        raise LevelError(
            "A statement about unseen domains needs a level strictly between 0 and 1, got "
            f"alpha = {level}: no number of domains bounds the "
            f"{'largest' if level.log_tail else 'smallest'} possible risk."
        )
    if level.alpha == 1.0:
        raise LevelError(
            f"alpha = {level} is too close to 1 for a statement about unseen domains: it would "
            "take more than 10^15 of them. Choose a lower level."
        )
    return float(alpha) if isinstance(alpha, (int, float)) else level.alpha


def checked_risks(risks: Any, what: str = "Risks", at_least: int = 2, first: int = 0) -> Vector:
    """A finite risk per domain as float64 (m,), with m at least 2; errors count from ``first``."""
    values = _vector(risks, what)
    if values.size == 0:
        raise DomainDataError(f"{what} are empty: there must be one number per domain.")
    refuse_first(
        ~np.isfinite(values),
        values,
        "The risk of {domain} is {value}. Risks must be finite: check the losses of this domain "
        "for NaN or overflow.",
        first,
    )
    if values.size < at_least:
        raise TooFewDomainsError(
            f"At least {at_least} domains are needed for statements about new domains, got "
            f"{counted(values.size, 'domain')}.",
            domains=values.size,
            needed=at_least,
        )
    return values


def without_rounding(risks: Vector) -> Vector:
    """The risks; all equal if they differ by rounding alone, as where every row has one loss."""
    differ = np.ptp(risks) > SAME * np.abs(risks).max()
    return risks if differ else np.full_like(risks, risks[0])


def midranks(values: Vector) -> Vector:
    """Ranks from 1; equal values have the mean of their ranks."""
    ordered = np.sort(values)
    left, right = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray(0.5 * (left + right + 1))


def checked_counts(counts: Any, domains: int) -> Vector:
    """Examples per domain (m,), or one number for all; integers of at least 1."""
    values = per_domain(counts, "counts", domains)
    refuse_first(
        ~((values >= 1.0) & (values == np.floor(values)) & np.isfinite(values)),
        values,
        "Domain {i} has {value:g} examples. counts must be integers of at least 1: drop domains "
        "that were not measured.",
    )
    return values


def checked_variances(variances: Any, domains: int, known: Any = True) -> Vector:
    """Variances of the losses of each domain (m,), or one for all; used where ``known`` (m,)."""
    values = per_domain(variances, "loss_variances", domains)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.isfinite(values) & (values >= 0.0)) & known
    refuse_first(
        wrong,
        values,
        "The variance of the losses of {domain} is {value:g}. It must be finite and not "
        "negative wherever there are two examples or more.",
    )
    return values


def checked_range(losses: Any, name: str) -> tuple[float, float]:
    """The least and the largest loss possible."""
    try:
        low, high = (float(end) for end in losses)
    except (TypeError, ValueError):
        low = high = np.nan
    if not -np.inf < low < high < np.inf:
        raise SettingError(
            f"{name} must be two finite numbers, the smallest and the largest possible loss, got "
            f"{losses!r}."
        )
    return low, high


def per_domain(values: Any, what: str, domains: int) -> Vector:
    """One number per domain (m,), or one for all of them."""
    if np.ndim(values) == 0:
        values = np.full(domains, values)
    array = _vector(values, what)
    if array.size != domains:
        raise DomainDataError(
            f"There must be one number per domain: {what} has {array.size}, risks {domains}."
        )
    return array


def _vector(values: Any, what: str) -> Vector:
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(f"{what} must be numbers, one per domain.") from None
    if array.ndim != 1:
        raise DomainDataError(
            f"{what} must be a vector with one number per domain, got the shape {array.shape}."
        )
    return array


def refuse_first(
    wrong: npt.NDArray[np.bool_], values: Vector, message: str, first: int = 0
) -> None:
    """Raise if a number is wrong; the message names the first such {domain} and its {value}.

    Domains are counted from ``first``.
    """
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        told = message.format(domain="{domain}", i=first + i, value=float(values[i]))
        raise DomainDataError(told, index=(first + i,))


class Finding:
    """Base of dataclasses with numbers and strings as fields, and properties that explain them."""

    derived: ClassVar[tuple[str, ...]] = ("sentence",)
    """Properties that :meth:`to_dict` holds besides the fields."""

    def __str__(self) -> str:
        return str(getattr(self, "sentence", repr(self)))

    def _repr_html_(self) -> str:
        """What was found as sentences, for a notebook."""
        return lines_in_html(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Every field, and what follows from them, ready for JSON: an infinite number is None."""
        found = asdict(self)  # type: ignore[call-overload]
        found |= {name: getattr(self, name) for name in self.derived}
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in found.items()
        }
