"""Laws of one number, with exact mean and variance: of a noise, or of an intervention's size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import SettingError
from eqrm.linear.settings import is_number


class Law(ABC):
    """A law with ``mean``, ``variance``, ``draw`` and ``quantile``."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The exact mean."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The exact variance."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        """``size`` independent numbers."""

    @abstractmethod
    def _scipy(self, stats: Any) -> Any:
        """The same law in scipy."""

    @property
    def std(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def quantile(self, level: float) -> float:
        """F⁻¹(level).

        >>> round(LogNormal(0.0, 0.5).quantile(0.5), 12)
        1.0
        """
        if not 0.0 <= level <= 1.0:
            raise SettingError(f"A level lies between 0 and 1, but it is {level!r}.")
        from scipy import stats  # slow to import, rarely needed

        return float(self._scipy(stats).ppf(level))


@dataclass(frozen=True)
class Normal(Law):
    """The normal law.

    >>> Normal(1.0, std=2.0).variance
    4.0
    """

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "std")

    @property
    def variance(self) -> float:
        return self.std**2

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        values = generator.standard_normal(size)
        values *= self.std
        values += self.mean
        return values

    def _scipy(self, stats: Any) -> Any:
        return stats.norm(self.mean, self.std)


@dataclass(frozen=True)
class LogNormal(Law):
    """exp of a normal number with mean ``log_mean`` and standard deviation ``log_std``."""

    log_mean: float = 0.0
    log_std: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "log_std")
        if self.log_mean + self.log_std**2 > 300.0:
            raise SettingError(f"The variance of {self} is beyond what float64 can hold.")

    @property
    def mean(self) -> float:
        return math.exp(self.log_mean + self.log_std**2 / 2)

    @property
    def variance(self) -> float:
        return math.expm1(self.log_std**2) * self.mean**2

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        return generator.lognormal(self.log_mean, self.log_std, size)

    def _scipy(self, stats: Any) -> Any:
        return stats.lognorm(self.log_std, scale=math.exp(self.log_mean))


@dataclass(frozen=True)
class Uniform(Law):
    """The uniform law between ``low`` and ``high``."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check(self)
        if not self.low < self.high:
            raise SettingError(f"low must be below high, but they are {self.low} and {self.high}.")

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        return (self.high - self.low) ** 2 / 12

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        return generator.uniform(self.low, self.high, size)

    def _scipy(self, stats: Any) -> Any:
        return stats.uniform(self.low, self.high - self.low)


@dataclass(frozen=True)
class Laplace(Law):
    """The Laplace law: density exp(−|x − mean|/scale)/(2·scale)."""

    mean: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "scale")

    @property
    def variance(self) -> float:
        return 2 * self.scale**2

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        return generator.laplace(self.mean, self.scale, size)

    def _scipy(self, stats: Any) -> Any:
        return stats.laplace(self.mean, self.scale)


@dataclass(frozen=True)
class StudentT(Law):
    """Student's t with ``df`` > 2 degrees of freedom, times ``scale``, plus ``mean``."""

    df: float
    mean: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "df", "scale")
        if self.df <= 2:
            raise SettingError(
                f"Student's t with {self.df} degrees of freedom has no finite variance, and "
                "squared error needs one: take more than 2."
            )

    @property
    def variance(self) -> float:
        return self.scale**2 * self.df / (self.df - 2)

    def draw(self, generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.mean + self.scale * generator.standard_t(self.df, size)

    def _scipy(self, stats: Any) -> Any:
        return stats.t(self.df, self.mean, self.scale)


def _check(law: Any, *positive: str) -> None:
    for name, value in vars(law).items():
        if not is_number(value):
            raise SettingError(
                f"{name} of {type(law).__name__} must be a finite number, not {value!r}."
            )
        if name in positive and value <= 0:
            raise SettingError(
                f"{name} of {type(law).__name__} must be positive, but it is {value}."
            )


def as_law(value: Law | float) -> Law:
    """A law, or a positive number taken as the standard deviation of a centred normal law."""
    return value if isinstance(value, Law) else Normal(std=value)


def check_noise(name: str, value: Any) -> None:
    """Refuse what is neither a law nor a positive number, by the variable's name."""
    if not isinstance(value, Law) and not (is_number(value) and value > 0):
        raise SettingError(
            f"The noise of {name!r} must be a law, or a positive number for the standard deviation "
            f"of a normal one, not {value!r}."
        )
