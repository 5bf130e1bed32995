"""Hyperparameters: a default, what it means, which values it may take, where to search.

An objective lists them next to its maths. A search draws from the spaces; the defaults and
spaces are those DomainBed publishes (Gulrajani & Lopez-Paz 2021, and the code beside it), except
where an objective's docstring says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from eqrm.errors import LevelError, SettingError
from eqrm.level import Level

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class SearchSpace(Protocol[T_co]):
    """Where a random search draws a hyperparameter from."""

    def sample(self, generator: np.random.Generator) -> T_co:
        """One draw."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Uniform on [low, high].

    >>> 0 <= Uniform(0, 0.5).sample(np.random.default_rng(0)) <= 0.5
    True
    """

    low: float
    high: float

    def sample(self, generator: np.random.Generator) -> float:
        """One draw."""
        return float(generator.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniform:
    """base ** U(low, high); with ``integer`` the draw is rounded down.

    Whole numbers come out as ``int``, so a number of steps never turns into a float.

    >>> LogUniform(2, 0, 3, integer=True).sample(np.random.default_rng(0))
    3
    """

    base: float
    low: float
    high: float
    integer: bool = False

    def sample(self, generator: np.random.Generator) -> float:
        """One draw."""
        value = self.base ** float(generator.uniform(self.low, self.high))
        return int(value) if self.integer else value


@dataclass(frozen=True)
class Choice(Generic[T]):
    """One of a few values, each as likely as the next.

    >>> Choice((True, False)).sample(np.random.default_rng(0)) in (True, False)
    True
    """

    values: tuple[T, ...]

    def sample(self, generator: np.random.Generator) -> T:
        """One draw."""
        return self.values[int(generator.integers(len(self.values)))]


@dataclass(frozen=True)
class Constraint:
    """Which values are allowed: a rule, and the same rule in words."""

    words: str
    holds: Callable[[Any], bool]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_level(value: object) -> bool:
    if isinstance(value, str):
        try:
            Level.parse(value)
        except LevelError:
            return False
        return True
    return isinstance(value, Level) or _is_number(value)


POSITIVE = Constraint(
    "a finite number above 0", lambda v: _is_number(v) and math.isfinite(v) and v > 0
)
NON_NEGATIVE = Constraint(
    "a finite number, 0 or more", lambda v: _is_number(v) and math.isfinite(v) and v >= 0
)
FRACTION = Constraint("a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1)
POSITIVE_INTEGER = Constraint("a whole number, 1 or more", lambda v: _is_whole(v) and v >= 1)
LEVEL = Constraint("a level: a number in (0, 1), a Level, or a text such as '1-e^-1000'", _is_level)
YES_OR_NO = Constraint("True or False", lambda v: isinstance(v, (bool, np.bool_)))


def optional(constraint: Constraint) -> Constraint:
    """The same rule, or None.

    >>> optional(POSITIVE).holds(None)
    True
    """
    return Constraint(f"None or {constraint.words}", lambda v: v is None or constraint.holds(v))


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter of an objective.

    ``space`` is None for what is not searched over.

    >>> weight = Hyperparameter(1.0, "weight of the penalty", NON_NEGATIVE, LogUniform(10, -1, 1))
    >>> weight.check("penalty_weight", -1)
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: penalty_weight (weight of the penalty) must be a finite number,
        0 or more, not -1.
    """

    default: Any
    meaning: str
    constraint: Constraint | None = None
    space: SearchSpace[Any] | None = None

    def check(self, name: str, value: object) -> None:
        """Raise ``SettingError`` where the value is not allowed."""
        if self.constraint is not None and not self.constraint.holds(value):
            raise SettingError(
                f"{name} ({self.meaning}) must be {self.constraint.words}, not {value!r}."
            )

    def sample(self, generator: np.random.Generator) -> Any:
        """A draw from the search space; the default where there is none."""
        return self.default if self.space is None else self.space.sample(generator)


Hyperparameters: TypeAlias = Mapping[str, Hyperparameter]
