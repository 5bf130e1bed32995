"""Sizes of the simulations, and the cells: kinds of worlds, requirements, numbers of domains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from eqrm.evaluation.measuring.requirement import Requirement
from studies.control_coverage.worlds import FOUR, GRID, NUMBERS, PLAIN, RARE

ALPHA, CONFIDENCE = 0.9, 0.95
SEVERAL = 5
"""Models of which one is chosen by what it keeps."""
POINT = 0.01
"""How far the mean share of new domains may be from the theory of order statistics."""
FEW, MIDDLE, MANY = 29, 60, 300
ALL = (FEW, MIDDLE, MANY)
BEST, NESTED = "best of five", "nested"
WRONG, AMONG, MISSED = "wrong <= 5%", "wrong among answered <= 5%", "missed <= 10%"
ALARMS, LAC, APS = "false alarms <= 5%", "coverage >= 90% (lac)", "coverage >= 90% (aps)"
INTERVALS, LOSS = "coverage >= 90% (intervals)", "loss <= 0.3"


@dataclass(frozen=True)
class ControlSettings:
    """How many domains a pool has, and how many worlds are drawn from it.

    ``slow`` is the number of worlds of nested and dependent domains, and of five models, and
    ``trainings`` that of worlds in which models are fitted. Shares of worlds may be ``errors``
    standard errors of the simulation below what is stated.
    """

    pool: int
    worlds: int
    slow: int
    errors: float
    trainings: int

    def wanted(self, worlds: int) -> float:
        """In which share of so many worlds the promise must hold."""
        return CONFIDENCE - self.errors * math.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / worlds)


RUNS = {
    "full": ControlSettings(20_000, 10_000, 2000, 2, 100),
    "quick": ControlSettings(1500, 60, 20, 4, 1),
}


@dataclass(frozen=True)
class Cell:
    """Worlds of a kind with so many domains and rows in each, and what is required."""

    kind: str
    require: str
    domains: int
    rows: int
    form: str = ""
    dependence: int = 0

    @property
    def requirement(self) -> Requirement:
        """As the package holds it."""
        return Requirement.of(self.require)

    @property
    def true(self) -> bool:
        """Whether it is about true shares."""
        return self.kind.startswith("true")

    @property
    def models(self) -> int:
        """Of how many one is chosen."""
        return SEVERAL if self.form == BEST else 1

    @property
    def plain(self) -> bool:
        """Whether its setting is an order statistic of what independent domains need."""
        return not (self.true or self.form or self.dependence)

    @property
    def name(self) -> str:
        """The kind, with what is special about it."""
        besides = [self.form] if self.form else []
        besides += [f"dependent up to {self.dependence}"] if self.dependence else []
        return ", ".join([self.kind, *besides])

    @property
    def sizes(self) -> str:
        """How many rows domains have."""
        return str(self.rows or "5 to 500")

    def __str__(self) -> str:
        return f"{self.name}, '{self.require}', {self.domains} domains of {self.sizes} rows"


PLAN = (
    (PLAIN, 100, (WRONG, AMONG, MISSED, ALARMS, LAC, APS), ALL),
    (PLAIN, 10, ("wrong <= 20%", "missed <= 20%", "coverage >= 80% (lac)"), ALL),
    (PLAIN, 2000, (WRONG, AMONG), ALL),
    ("slope reversed in 15%", 100, (WRONG, AMONG, MISSED, ALARMS, LAC), (FEW, MANY)),
    ("shifted base rate", 100, (WRONG, MISSED, ALARMS), (FEW, MANY)),
    ("classes, heavy tails", 100, (WRONG, AMONG, APS), (FEW, MANY)),
    ("ties: one digit", 100, (WRONG, AMONG, MISSED, LAC), ALL),
    ("5 to 500 rows", 0, (WRONG, AMONG, MISSED, ALARMS), ALL),
    (FOUR, 100, (LAC, APS, "wrong <= 5%"), ALL),
    (FOUR, 10, (LAC, APS), (MIDDLE,)),
    ("four classes, heavy tails", 100, (LAC, APS), (FEW, MANY)),
    (NUMBERS, 10, (INTERVALS,), ALL),
    (NUMBERS, 100, (INTERVALS,), ALL),
    (NUMBERS, 2000, (INTERVALS,), ALL),
    ("numbers with ends", 100, (INTERVALS,), ALL),
    ("numbers with a scale", 100, (INTERVALS,), ALL),
    ("numbers, heavy tails", 100, (INTERVALS,), (FEW, MANY)),
    (GRID, 20, (LOSS,), ALL),
    ("true: confidence", 100, ("wrong <= 10%",), ALL),
    ("true: confidence", 2000, ("wrong <= 10%",), (MANY,)),
    ("true: scores", 200, (MISSED,), ALL),
    ("true: negatives", 200, ("false alarms <= 10%",), ALL),
    ("true: numbers", 100, (INTERVALS,), ALL),
    (RARE, 100, (MISSED,), (MIDDLE, MANY)),
)


def cells() -> Iterator[Cell]:
    """Those of the plan, then the best of five, nested and dependent ones."""
    for kind, rows, requires, numbers in PLAN:
        for require in requires:
            for domains in numbers:
                yield Cell(kind, require, domains, rows)
    chosen = [(PLAIN, require, 50) for require in (WRONG, AMONG, MISSED, ALARMS)]
    chosen += [(FOUR, LAC, 20), (FOUR, APS, 20), ("numbers with ends", INTERVALS, 50)]
    for kind, require, rows in chosen:
        for domains in (MIDDLE, MANY):
            yield Cell(kind, require, domains, rows, BEST)
    for kind, require in ((PLAIN, WRONG), (NUMBERS, INTERVALS)):
        for domains in (MIDDLE, MANY):
            yield Cell(kind, require, domains, 30, NESTED)
        for domains, dependence in ((120, 1), (MANY, 2)):
            yield Cell(kind, require, domains, 30, dependence=dependence)
