"""The settings of the linear-regression experiment and the tolerances of its checks."""

from __future__ import annotations

from dataclasses import dataclass

from eqrm.level import Level

# Published code, and §6.1 where they agree: the paper's α → 1 is log(1−α) = −1e30 there.
LEVELS = (
    Level(0.25),
    Level(0.5),
    Level(0.75),
    Level(0.9),
    Level(0.99),
    Level(log_tail=-1e30),
)
TEST_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)

# A finer path, to time the solver and to tabulate the way to the causal predictor.
PATH_LEVELS = (
    *(Level(alpha) for alpha in (0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)),
    *(Level(log_tail=tail) for tail in (-20.0, -100.0, -1000.0, -1e30)),
)

# For the solutions without sampling noise: as deep as float64 still sees the mean risk beside
# the spread, which is multiplied by z = √(−2 log(1−α)).
EXACT_LEVELS = (*LEVELS[:-1], *(Level(log_tail=tail) for tail in (-1e2, -1e4, -1e6, -1e8)))


@dataclass(frozen=True)
class Settings:
    """Sizes and tolerances. The defaults are the paper's size.

    ``subset_sizes`` are the m < 1000 of Figure 3 D and ``subsets`` how many random subsets its
    error is averaged over; the paper names neither, they are ours. ``near_closed_form`` bounds
    the distance of coefficients from their limit for many samples, ``near_causal`` that of the
    last level from (1, 0). There the spread of measured risks is minimised, and most of it is
    sampling noise: by chance it falls along some direction, which moves β_cause by about 1/√m,
    and its size keeps β_effect above 0 by about n^(−1/3). ``exact`` and
    ``exact_near_causal`` are the same two without sampling.
    ``draws`` other draws of the domains are judged by the closed form.
    """

    domains: int = 1000
    rows: int = 200_000
    subset_sizes: tuple[int, ...] = (10, 30, 100, 300)
    subsets: int = 100
    near_closed_form: float = 0.01
    near_causal: float = 0.1
    exact: float = 1e-8
    exact_near_causal: float = 1e-3
    draws: int = 100
    domains_per_draw: int = 1000
    workers: int = 2


SETTINGS = {
    "full": Settings(),
    "quick": Settings(
        domains=300,
        rows=40_000,
        subset_sizes=(5, 20, 80),
        subsets=40,
        near_closed_form=0.03,
        near_causal=0.2,
        draws=5,
    ),
}


def level_name(level: Level) -> str:
    """The level as the paper prints it.

    >>> level_name(Level(0.9)), level_name(Level(log_tail=-1e30))
    ('0.9', '→ 1')
    """
    return "→ 1" if level.log_tail == -1e30 else str(level)


def expected_winner(quantile: float) -> int:
    """The index of the level for a test quantile: its own, else the next above.

    >>> [expected_winner(q) for q in (0.1, 0.25, 0.99, 0.999)]
    [0, 0, 4, 5]
    """
    for index, level in enumerate(LEVELS):
        if quantile <= level.alpha + 1e-9:
            return index
    return len(LEVELS) - 1
