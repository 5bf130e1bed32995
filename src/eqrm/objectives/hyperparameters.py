"""Hyperparameters of objectives: default, meaning, allowed values and search space, in one place.

Defaults and spaces are those that DomainBed publishes (Gulrajani & Lopez-Paz 2021, and the code
beside it), except where an objective's docstring says otherwise.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from eqrm.checks import Rule

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class SearchSpace(Protocol[T_co]):
    """Where a random search draws a hyperparameter from."""

    def sample(self, generator: np.random.Generator) -> T_co:
        """One draw."""
        ...


@dataclass(frozen=True)
class UniformSpace:
    """Uniform on [low, high]."""

    low: float
    high: float

    def sample(self, generator: np.random.Generator) -> float:
        return float(generator.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniformSpace:
    """base ** U(low, high); with ``integer`` the draw is rounded down to an ``int``."""

    base: float
    low: float
    high: float
    integer: bool = False

    def sample(self, generator: np.random.Generator) -> float:
        value = self.base ** float(generator.uniform(self.low, self.high))
        return int(value) if self.integer else value


@dataclass(frozen=True)
class ChoiceSpace(Generic[T]):
    """One of a few values, all equally likely."""

    values: tuple[T, ...]

    def sample(self, generator: np.random.Generator) -> T:
        return self.values[int(generator.integers(len(self.values)))]


@dataclass(frozen=True)
class Hyperparameter:
    """What an objective declares about one of its hyperparameters.

    ``rule`` is None where the objective checks the value itself, ``space`` where it is not
    searched over.
    """

    default: Any
    meaning: str
    rule: Rule | None = None
    space: SearchSpace[Any] | None = None

    def check(self, name: str, value: object) -> None:
        """Raise ``SettingError`` where the value is not allowed."""
        if self.rule is not None:
            self.rule.check(value, f"{name} ({self.meaning})")


def hyperparameter(
    default: T, meaning: str, rule: Rule | None = None, space: SearchSpace[Any] | None = None
) -> T:
    """A field of an objective: the one place of its default, meaning, rule and search space.

    >>> @dataclass
    ... class Penalty:
    ...     weight: float = hyperparameter(1.0, "weight of the penalty")
    >>> Penalty().weight, declared_hyperparameters(Penalty)["weight"].meaning
    (1.0, 'weight of the penalty')
    """
    declared = Hyperparameter(default, meaning, rule, space)
    return dataclasses.field(default=default, metadata={"hyperparameter": declared})


def declared_hyperparameters(kind: Any) -> dict[str, Hyperparameter]:
    """The hyperparameters of a dataclass by name, in the order of its fields."""
    found = {field.name: field.metadata.get("hyperparameter") for field in dataclasses.fields(kind)}
    return {name: declared for name, declared in found.items() if declared is not None}
