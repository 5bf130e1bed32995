"""What makes a domain: interventions on a linear SCM, fixed or drawn from a law."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from eqrm.checks import NON_NEGATIVE_INTEGER, POSITIVE_INTEGER, is_number
from eqrm.errors import SettingError
from studies.causal.scm.laws import Law, NoiseLaw, is_law

Size = float | Law


@dataclass
class Assignment:
    """One equation X ← gain·(Σ coefficients·parents + factor·N) + shift, N from ``noise``."""

    parents: dict[str, float]
    noise: NoiseLaw
    factor: float = 1.0
    gain: float = 1.0
    shift: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of what the parents do not explain."""
        return self.shift + self.gain * self.factor * self.noise.mean

    @property
    def variance(self) -> float:
        """The variance of what the parents do not explain."""
        return (self.gain * self.factor) ** 2 * self.noise.variance


@dataclass(frozen=True)
class Intervention(ABC):
    """A change of the equation of one variable. Several are applied in order."""

    variable: str

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "variable" and not is_law(value) and not is_number(value):
                raise SettingError(
                    f"{field.name} of {type(self).__name__}({self.variable!r}) must be a finite "
                    f"number or a distribution, got {value!r}."
                )

    @abstractmethod
    def apply(self, assignment: Assignment) -> None:
        """Change the equation."""

    def _size(self, value: Size) -> float:
        if is_law(value):
            raise SettingError(
                f"The size of {type(self).__name__}({self.variable!r}) is a distribution, but a "
                "domain needs a number. Draw from it: DomainLaw(...).draw(number_of_domains, "
                "seed)."
            )
        return float(value)


@dataclass(frozen=True)
class Do(Intervention):
    """X ← value: a hard intervention.

    >>> Do("X1", 10.0)
    Do(variable='X1', value=10.0)
    """

    value: Size

    def apply(self, assignment: Assignment) -> None:
        """Cut the parents and the noise."""
        assignment.parents = {}
        assignment.gain = 0.0
        assignment.shift = self._size(self.value)


@dataclass(frozen=True)
class Shift(Intervention):
    """X ← (its equation) + by."""

    by: Size

    def apply(self, assignment: Assignment) -> None:
        """Add to the equation."""
        assignment.shift += self._size(self.by)


@dataclass(frozen=True)
class Scale(Intervention):
    """X ← factor · (its equation)."""

    factor: Size

    def apply(self, assignment: Assignment) -> None:
        """Multiply all of the equation."""
        factor = self._size(self.factor)
        assignment.gain *= factor
        assignment.shift *= factor


@dataclass(frozen=True)
class Noise(Intervention):
    """Another noise in the equation of X.

    One of three: ``factor`` multiplies the noise, ``std`` gives it another standard deviation
    around the same mean, ``law`` replaces it.

    >>> Noise("X2", std=10.0)
    Noise(variable='X2', factor=None, std=10.0, law=None)
    """

    factor: Size | None = None
    std: Size | None = None
    law: Law | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.factor, self.std, self.law) if value is not None]
        if len(given) != 1:
            raise SettingError(
                f"Noise({self.variable!r}) needs exactly one of factor, std and law, got "
                f"{len(given)}."
            )
        size = given[0]
        if not is_law(size) and (self.law is not None or not is_number(size)):
            what = "law" if self.law is not None else "size"
            needed = (
                "a distribution" if self.law is not None else "a finite number or a distribution"
            )
            raise SettingError(
                f"The {what} of Noise({self.variable!r}) must be {needed}, got {size!r}."
            )
        if self.std is not None and is_number(self.std) and self.std < 0:
            raise SettingError(f"A standard deviation cannot be negative, got {self.std}.")

    def apply(self, assignment: Assignment) -> None:
        """Change the noise, and nothing else."""
        if self.law is not None:
            assignment.noise, assignment.factor = NoiseLaw.of(self.law, self.variable), 1.0
        elif self.factor is not None:
            assignment.factor *= self._size(self.factor)
        elif self.std is not None:
            noise, mean = assignment.noise, assignment.factor * assignment.noise.mean
            factor = self._size(self.std) / math.sqrt(noise.variance)
            assignment.shift += assignment.gain * (mean - factor * noise.mean)
            assignment.factor = factor


Domain = tuple[Intervention, ...]


def as_domain(domain: Any) -> Iterable[Intervention]:
    """The interventions of a domain; one alone, or none at all, is refused."""
    if isinstance(domain, Intervention) or not isinstance(domain, Iterable):
        raise SettingError(
            f"A domain is a list of interventions, such as [Do('X1', 10.0)], got {domain!r}."
        )
    return domain


@dataclass(frozen=True)
class DomainLaw:
    """A law over domains: interventions whose sizes are laws, drawn once per domain.

    The paper's linear world, in which the noise of X2 has a log-normal σ:

    >>> from studies.causal.scm import laws
    >>> law = DomainLaw((Noise("X2", std=laws.lognormal(0.0, 0.5**0.5)),))
    >>> domains = law.draw(1000, seed=0)
    >>> len(domains), domains["0"] == law.domain(0, seed=0)
    (1000, True)
    """

    interventions: Domain

    def __post_init__(self) -> None:
        for each in as_domain(self.interventions):
            if not isinstance(each, Intervention):
                raise SettingError(f"DomainLaw takes interventions, got {each!r}.")

    def domain(self, index: int, seed: int = 0) -> Domain:
        """The interventions of domain ``index``: the same for the same seed, in any order."""
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, index)))
        return tuple(_drawn(each, generator) for each in self.interventions)

    def draw(self, count: int, seed: int = 0) -> DrawnDomains:
        """``count`` domains, named "0", "1", …; each is drawn when it is looked at."""
        POSITIVE_INTEGER.check(count, "The number of domains")
        return DrawnDomains(self, int(count), int(NON_NEGATIVE_INTEGER.check(seed, "seed")))


@dataclass(frozen=True)
class DrawnDomains(Mapping[str, Domain]):
    """Domains "0" … "count−1" of a law, none of them held in memory."""

    law: DomainLaw
    count: int
    seed: int

    def __getitem__(self, name: str) -> Domain:
        if not (
            isinstance(name, str)
            and name.isdigit()
            and str(int(name)) == name
            and int(name) < self.count
        ):
            raise KeyError(name)
        return self.law.domain(int(name), self.seed)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.count))

    def __len__(self) -> int:
        return self.count


def _drawn(intervention: Intervention, generator: np.random.Generator) -> Intervention:
    changes: dict[str, Any] = {
        field.name: float(getattr(intervention, field.name).rvs(random_state=generator))
        for field in fields(intervention)
        if field.name != "law" and is_law(getattr(intervention, field.name))
    }
    return replace(intervention, **changes)
