"""Which tables are drawn, and what the decisions on them must achieve; fixed beforehand.

The rule of the package was chosen on tables 0 to 5 of these worlds. The tables of this study have
other numbers, from 100 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from studies.policy.experiment import Case
from studies.policy.worlds import KINDS

FIRST = 100
SIZES = (20, 40, 100, 200)
SIXTY = 60
"""Kinds with a slope that is reversed in 12% or more are also drawn with so many domains."""
MEAN_REGRET, REGRET_OF_A_KIND = 0.015, 0.04
WORSE_THAN_PLAIN = 0.015
GAIN, REVERSED = 0.10, 0.12
"""What is gained at least where a slope is reversed in so many domains, or more."""
CLEAR, LIKELY = 0.95, 0.75
COVERAGE = (0.93, 0.98)
BUDGET = 0.1
AUC_NEAR = 0.03
BOUND = 0.95


@dataclass(frozen=True)
class PolicySettings:
    """Tables of each kind and size, and fresh domains that truths are taken from."""

    tables: int
    sizes: tuple[int, ...]
    fresh: int
    kinds: int = len(KINDS)
    intercepts: int = 20
    """Seeds of the table with a random intercept."""

    def cases(self) -> list[Case]:
        """All tables, round by round: a run that is cut off has tables of all kinds."""
        found = []
        for kind in KINDS[: self.kinds]:
            sizes = self.sizes
            if kind.reversed_share >= REVERSED and SIXTY not in sizes:
                sizes = (*sizes, SIXTY)
            found += [
                Case(kind.name, m, FIRST + table, fresh=self.fresh)
                for m in sizes
                for table in range(self.tables)
            ]
        rates = next(kind.name for kind in KINDS if kind.name == "base rates differ")
        found += [
            Case(rates, 50, FIRST + seed, rows=40, fresh=self.fresh)
            for seed in range(self.intercepts)
        ]
        return sorted(found, key=lambda case: case.table)


RUNS = {
    "full": PolicySettings(20, SIZES, 2_000),
    "quick": PolicySettings(1, (20,), 100, kinds=2, intercepts=1),
}
