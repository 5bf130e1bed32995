"""The level: the probability α with which a predictor should generalise.

A level is stored as log(1−α). That is the one number that stays exact however close
α comes to 1: the paper trains at log(1−α) = −1000, where α itself rounds to 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache, lru_cache

from eqrm.errors import LevelError
from eqrm.text import shortened

_TAIL_FORM = re.compile(r"^1\s*-\s*e\s*\^?\s*\(?\s*(-[0-9.]+(?:e[+-]?[0-9]+)?)\s*\)?$", re.I)

MEASURES: dict[str, str] = {
    "quantile": "kde",
    "superquantile": "empirical",
    "worst": "empirical",
    "mean": "empirical",
}
"""What of the distribution of the risk is minimised (:mod:`eqrm.measures`), and of which one."""
WITHOUT_LEVEL = ("worst", "mean")
"""The measures that have no level, so that ``alpha`` is not used."""


class Level:
    """A probability of generalising, α, kept as ``log_tail`` = log(1−α).

    Give either α or ``log_tail``. Levels 0 and 1 exist (the smallest and the largest
    risk), but only distributions with bounded support can use them.

    >>> Level(0.9)
    Level(0.9)
    >>> Level(log_tail=-1000)
    Level(log_tail=-1000.0)
    >>> Level.parse("1-e^-1000") == Level(log_tail=-1000)
    True
    >>> round(Level(log_tail=-1000).z, 4)
    44.6157
    """

    __slots__ = ("_log_alpha", "_log_tail", "_tail_mean", "_z")

    def __init__(self, alpha: float | None = None, *, log_tail: float | None = None) -> None:
        if (alpha is None) == (log_tail is None):
            raise LevelError(
                "A level needs either alpha or log_tail = log(1 - alpha), not both. "
                "Write Level(0.9) or Level(log_tail=-1000)."
            )
        if log_tail is None:
            value = _number(alpha, "alpha")
            if not 0.0 <= value <= 1.0:
                raise LevelError(
                    f"alpha must lie between 0 and 1, got {alpha!r}. "
                    "For levels closer to 1 than a float can hold, "
                    "write Level(log_tail=-1000), which is 1 - e^-1000."
                )
            self._log_tail = math.log1p(-value) if value < 1.0 else -math.inf
        else:
            value = _number(log_tail, "log_tail")
            if value > 0.0:
                raise LevelError(
                    f"log_tail = log(1 - alpha) must be 0 or negative, got {log_tail!r}. "
                    "Level(log_tail=-1000) is alpha = 1 - e^-1000."
                )
            self._log_tail = value + 0.0
        self._log_alpha, self._z, self._tail_mean = _derived_numbers(self._log_tail)

    @classmethod
    def of(cls, alpha: Level | float | str) -> Level:
        """Turn a level, a number α or a string into a level."""
        if isinstance(alpha, Level):
            return alpha
        if isinstance(alpha, str):
            return cls.parse(alpha)
        return cls(alpha)

    @classmethod
    def parse(cls, text: str) -> Level:
        """Read ``"0.9"`` or ``"1-e^-1000"``."""
        stripped = text.strip()
        match = _TAIL_FORM.match(stripped)
        try:
            value = float(match.group(1) if match else stripped)
        except ValueError:
            raise LevelError(
                f"{text!r} is not a level. Write a number between 0 and 1, such as 0.9, "
                "or 1-e^-1000 for levels very close to 1."
            ) from None
        return cls(log_tail=value) if match else cls(value)

    @property
    def log_tail(self) -> float:
        """log(1−α)."""
        return self._log_tail

    @property
    def alpha(self) -> float:
        """α, which rounds to 1.0 for log tails below about −37."""
        return -math.expm1(self._log_tail) + 0.0

    @property
    def tail(self) -> float:
        """1−α, which rounds to 0.0 for log tails below about −745."""
        return math.exp(self._log_tail)

    @property
    def log_alpha(self) -> float:
        """log α, exact for small α too."""
        return self._log_alpha

    @property
    def z(self) -> float:
        """Φ⁻¹(α), the quantile of the standard normal law, however deep the tail."""
        return self._z

    @property
    def tail_mean(self) -> float:
        """φ(z)/(1−α), the mean of the standard normal law beyond its α-quantile."""
        return self._tail_mean

    @property
    def share_in_words(self) -> str:
        """α as people say it: the share of domains, such as "9 in 10"."""
        alpha = round(self.alpha, 12)
        if self._log_tail == -math.inf or alpha in (0.0, 0.5):
            return {0.0: "none", 0.5: "half"}.get(alpha, "all")
        for whole in (4, 10, 20, 100, 1_000, 10_000, 100_000, 1_000_000):
            share = round(alpha * whole, 9)
            is_common = whole <= 20 or share in (1, whole - 1)
            if share.is_integer() and is_common and 0 < share < whole:
                return f"{share:,.0f} in {whole:,}"
        digits = 3 if alpha < 0.99 else 8
        return f"{100 * alpha:.{digits}g}%" if self.tail > 1e-6 else str(self)

    @property
    def quantile_in_words(self) -> str:
        """The quantile at this level as the heading of a column."""
        ends = {"none": "best", "all": "worst"}
        return ends.get(self.share_in_words, f"{self.share_in_words} below")

    def interior(self, what: str) -> Level:
        """Return the level itself if 0 < α < 1, else refuse on behalf of ``what``."""
        if self._log_tail == -math.inf:
            raise LevelError(
                f"{what} has no largest value, so it has no quantile at alpha = 1. "
                "Use a level below 1, such as Level(log_tail=-1000), or Empirical, "
                "whose quantile at 1 is the largest risk."
            )
        if self._log_tail == 0.0:
            raise LevelError(
                f"{what} has no smallest value, so it has no quantile at alpha = 0. "
                "Use a level above 0, or Empirical, whose quantile at 0 is the smallest risk."
            )
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Level) and self._log_tail == other._log_tail

    def __hash__(self) -> int:
        return hash((Level, self._log_tail))

    def __lt__(self, other: Level) -> bool:
        return self._log_tail > other._log_tail

    def __repr__(self) -> str:
        if self._log_tail > -30.0 or self._log_tail == -math.inf:
            return f"Level({float(f'{self.alpha:.15g}')!r})"
        return f"Level(log_tail={self._log_tail!r})"

    def __str__(self) -> str:
        if self._log_tail > -30.0 or self._log_tail == -math.inf:
            return f"{self.alpha:.12g}"
        return f"1-e^{self._log_tail:g}"


@cache
def _normal_functions() -> tuple[Callable[[float], float], ...]:
    """log Φ, its inverse, and erfcx; loaded when first needed, because scipy is slow to import."""
    from scipy.special import erfcx, log_ndtr, ndtri_exp

    return log_ndtr, ndtri_exp, erfcx


def _derived_numbers(log_tail: float) -> tuple[float, float, float]:
    """Those of :func:`_normal_numbers`, as a function that can be marked."""
    return _normal_numbers(log_tail)


# What torch.compiler.assume_constant_result does, without importing torch: inside
# torch.compile the function is called, not traced into scipy.
_derived_numbers._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=1024)
def _normal_numbers(log_tail: float) -> tuple[float, float, float]:
    """log α, Φ⁻¹(α) and φ(z)/(1−α)."""
    log_alpha = _log_complement(log_tail)
    if log_tail > -math.log(2.0):
        z = -normal_upper_quantile(log_alpha)
    else:
        z = normal_upper_quantile(log_tail)
    return log_alpha, z, _normal_tail_mean(z)


def _log_complement(log_tail: float) -> float:
    """log(1 − exp(log_tail)), exact at both ends."""
    if log_tail > -math.log(2.0):
        complement = -math.expm1(log_tail)
        return math.log(complement) if complement > 0.0 else -math.inf
    return math.log1p(-math.exp(log_tail))


def _normal_tail_mean(z: float) -> float:
    """φ(z)/Φ(−z)."""
    if z < -20.0:
        return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    _, _, erfcx = _normal_functions()
    mills = float(erfcx(z / math.sqrt(2.0)))
    return math.sqrt(2.0 / math.pi) / mills if mills > 0.0 else z


def normal_upper_quantile(log_tail: float) -> float:
    """The z with log Φ(−z) = ``log_tail``."""
    log_ndtr, ndtri_exp, _ = _normal_functions()
    if log_tail == -math.inf:
        return math.inf
    z = float(-ndtri_exp(log_tail)) + 0.0
    if log_tail < -100.0:
        # scipy's inverse is good to 5e-13 only around log_tail = -1e6. Deep in the tail
        # the hazard φ(z)/Φ(-z) is z + 1/z to the accuracy that one Newton step needs.
        z += (float(log_ndtr(-z)) - log_tail) / (z + 1.0 / z)
    return z


def _number(value: object, name: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise LevelError(f"{name} must be a number, got {shortened(repr(value))}.")
    return number
