"""30 small problems whose least superquantile a conic program has found.

The values are in ``superquantile_programs.json``. They were found by Clarabel, an interior-point
solver of conic programs, through CVXPY, with all tolerances at 1e-11, and are written anew by

    pip install cvxpy && python tests/linear/superquantile_programs.py

The tests need neither of the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).with_suffix(".json")
LEVELS = (0.0, 0.2, 0.5, 0.6, 0.75, 0.8, 0.9, 0.95, 0.99, 1.0)
ROWS = 14


@dataclass(frozen=True, eq=False)
class Case:
    """Rows of several domains, a loss and a level; l2 is of features with spread 1."""

    number: int
    loss: str
    alpha: float
    l2: float
    X: Any
    y: Any
    domains: Any

    @property
    def spread(self) -> Any:
        return self.X.std(axis=0)


def cases() -> Iterator[Case]:
    """Both losses by turns, and each level three times."""
    for number in range(30):
        generator = np.random.default_rng(number)
        m, d = int(generator.integers(3, 22)), int(generator.integers(1, 5))
        domains = np.repeat(np.arange(m), ROWS)
        X = generator.normal(size=(m * ROWS, d)) * generator.uniform(0.2, 5.0, size=d)
        slopes = 0.4 * generator.normal(size=(m, d)) + generator.normal(size=d)
        noise = generator.exponential(size=m)[domains] * generator.normal(size=m * ROWS)
        y = (X * slopes[domains]).sum(axis=1) + 2.0 * noise + generator.normal(size=m)[domains]
        loss = ("squared", "log-loss")[(number + number // 10) % 2]
        yield Case(
            number,
            loss,
            LEVELS[number % len(LEVELS)],
            (0.0, 0.01, 0.3)[number % 3],
            X,
            y if loss == "squared" else (y > 0.0).astype(int),
            domains,
        )


def solved_by_program(case: Case) -> float:
    """The least superquantile plus penalty, intercept included, by a conic program."""
    import cvxpy

    m, number = case.domains.max() + 1, (1.0 - case.alpha) * (case.domains.max() + 1)
    slopes, intercept, threshold = (
        cvxpy.Variable(case.X.shape[1]),
        cvxpy.Variable(),
        cvxpy.Variable(),
    )
    # In units of y and of the features, in which all numbers are about 1.
    unit = case.y.std() if case.loss == "squared" else 1.0
    scores, risks = (case.X / case.spread) @ slopes + intercept, []
    for e in range(m):
        own, y = scores[case.domains == e], case.y[case.domains == e]
        if case.loss == "squared":
            risks.append(cvxpy.sum_squares(own - y / unit) / ROWS)
        else:
            risks.append(cvxpy.sum(cvxpy.logistic(cvxpy.multiply(1 - 2 * y, own))) / ROWS)
    if number <= 1.0:
        measure = cvxpy.max(cvxpy.hstack(risks))
    else:
        measure = threshold + cvxpy.sum(cvxpy.pos(cvxpy.hstack(risks) - threshold)) / number
    penalty = case.l2 * cvxpy.sum_squares(slopes)
    problem = cvxpy.Problem(cvxpy.Minimize(measure + penalty))
    exact = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    return unit**2 * float(problem.solve(solver="CLARABEL", **exact))


def stored_values() -> dict[int, float]:
    """The value of each case, by its number."""
    return {int(number): value for number, value in json.loads(STORED.read_text()).items()}


if __name__ == "__main__":
    STORED.write_text(
        json.dumps({c.number: solved_by_program(c) for c in cases()}, indent=1) + "\n"
    )
