"""How many rounds of ERM should boosting for a level begin with?

    PYTHONPATH=. python benchmarks/boosting_rounds.py [--seeds 6] [--first 0] [--library xgboost]
        [--sizes] [--page FILE]

Three worlds whose unseen domains are many: digits whose colour misleads in a fifth of 60 sources
(60 rows each, drawn from digits of their own in training and test), a slope that is reversed in
15% of 60 domains of 60 rows, and 60 days of flights with 200 rows each. Trees are trained by ERM,
for the 0.9-quantile and for the superquantile at 0.75, with more or fewer rounds of ERM before;
*clipped* leaves out domains whose weight in the gradient of the quantile is negative. All have
100 rounds. Printed is the 0.9-quantile of log-loss over unseen domains, mean over seeds, and the
change against ERM with its standard error. ``--first`` is the first seed; ``--sizes`` compares
trees of other sizes in LightGBM instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from boosting import flights, write_table
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from tables import aligned, markdown
from torch import Tensor

import eqrm
from eqrm.estimators.boosting.objective import domain_weights
from eqrm.estimators.boosting.rounds import FEW_ROWS, tree_settings
from eqrm.estimators.goal import Goal

ALPHA = 0.9
MODELS: dict[str, Callable[..., Any]] = {
    "lightgbm": eqrm.LGBMQRMClassifier,
    "xgboost": eqrm.XGBQRMClassifier,
}


@dataclass(frozen=True)
class Rows:
    """Features, labels and domains."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domains: NDArray[np.int64]


World = Callable[[int], tuple[Rows, Rows]]


def digits(seed: int) -> tuple[Rows, Rows]:
    """60 sources of 60 coloured digits, and 200 unseen sources of 100 other digits."""
    pixels, shown = load_digits(return_X_y=True)
    centred = pixels - pixels.mean(axis=0)
    components = centred @ np.linalg.svd(centred, full_matrices=False)[2][:20].T
    rng = np.random.default_rng(seed)
    mixed = rng.permutation(len(shown))

    def sources(digits: NDArray[np.int64], number: int, rows: int) -> Rows:
        chosen = np.concatenate([rng.choice(digits, rows, replace=False) for _ in range(number)])
        source = np.repeat(np.arange(number), rows)
        agreement, misleads = rng.uniform(0.9, 1.0, number), rng.permutation(number) < number // 5
        agrees = rng.random(len(source)) < np.where(misleads, 1 - agreement, agreement)[source]
        label = (shown[chosen] >= 5).astype(np.int64)
        colour = np.where(agrees, label, 1 - label)
        return Rows(np.column_stack([components[chosen], colour]), label, source)

    return sources(mixed[:1198], 60, 60), sources(mixed[1198:], 200, 100)


def slopes(seed: int) -> tuple[Rows, Rows]:
    """60 domains of 60 rows, one slope of which is reversed in 15%; 400 unseen ones of 200."""
    rng = np.random.default_rng(seed)

    def domains(number: int, rows: int) -> Rows:
        domain, X = np.repeat(np.arange(number), rows), rng.normal(size=(number * rows, 5))
        sign = np.where(rng.permutation(number) < round(0.15 * number), -1.0, 1.0)[domain]
        logit = 0.8 * X[:, 0] + sign * X[:, 1] + 0.4 * X[:, 2]
        y = rng.random(len(X)) < 1.0 / (1.0 + np.exp(-logit))
        return Rows(X, y.astype(np.int64), domain)

    return domains(60, 60), domains(400, 200)


def days(seed: int) -> tuple[Rows, Rows]:
    """200 flights of each of 60 days, and all flights of the other days of 2013."""
    data = flights()
    rng = np.random.default_rng(seed)
    order = rng.permutation(data.days.max() + 1)
    seen = np.isin(data.days, order[:60])
    some = [rng.choice(np.flatnonzero(data.days == day), 200) for day in order[:60]]

    def of(rows: NDArray[Any]) -> Rows:
        day = np.unique(data.days[rows], return_inverse=True)[1]
        return Rows(data.X[rows].astype(np.float64), data.y[rows].astype(np.int64), day)

    return of(np.concatenate(some)), of(np.flatnonzero(~seen))


WORLDS: dict[str, World] = {
    "coloured digits": digits,
    "slope reversed in 15%": slopes,
    "flights": days,
}


class Clipped(eqrm.EQRM):
    """EQRM without the domains of negative weight: its slope in the risks is clipped at 0."""

    def of_risks(self, risks: Tensor) -> Tensor:
        """A sum with the clipped weights as constants."""
        with torch.enable_grad():
            _, weights = domain_weights(risks.detach().numpy(), eqrm.EQRM(ALPHA))
        kept = np.maximum(weights, 0.0)
        return (torch.from_numpy(kept / kept.sum()) * risks).sum()


class ClippedGoal(Goal):
    """The goal of a quantile by clipped weights."""

    def objective(self, memory: Any = None) -> Any:
        """What is boosted."""
        return Clipped(ALPHA)


def ways(library: str) -> Iterator[tuple[str, Any]]:
    """Names and estimators."""
    new = MODELS[library]
    settings = {**tree_settings(library, FEW_ROWS), "n_jobs": 1, "random_state": 0}
    yield "ERM", new(alpha=None, **settings)
    for share in (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9):
        yield f"EQRM at 0.9, {share:.0%}", new(alpha=ALPHA, erm_rounds=share, **settings)
    for share in (0.0, 0.4, 0.7, 0.8):
        model = new(alpha=ALPHA, erm_rounds=share, **settings)
        goal = model._checked_goal()
        clipped = ClippedGoal(goal.level, goal.choice, goal.distribution, goal.bandwidth)
        model._checked_goal = lambda clipped=clipped: clipped
        yield f"the same, clipped, {share:.0%}", model
    for share in (0.0, 0.4, 0.6, 0.7, 0.8, 0.9):
        tail = {"alpha": 0.75, "measure": "superquantile", "erm_rounds": share}
        yield f"superquantile at 0.75, {share:.0%}", new(**tail, **settings)


def sizes(library: str) -> Iterator[tuple[str, Any]]:
    """Trees of several sizes, by ERM and for the level."""
    for leaves, least in ((15, 50), (8, 50), (15, 20), (31, 50), (31, 20)):
        size = {"num_leaves": leaves, "min_child_samples": least, "n_jobs": 1}
        first = leaves == 15 and least == 50
        told = f"{leaves} leaves of {least} rows"
        yield "ERM" if first else f"ERM, {told}", MODELS[library](alpha=None, **size)
        yield f"EQRM at 0.9, {told}", MODELS[library](alpha=ALPHA, **size)


def quantile(model: Any, train: Rows, unseen: Rows) -> float:
    """The 0.9-quantile of the risk over unseen domains."""
    model.fit(train.X, train.y, groups=train.domains)
    losses = model.losses(unseen.X, unseen.y)
    risks = np.bincount(unseen.domains, losses) / np.bincount(unseen.domains)
    return float(np.quantile(risks, ALPHA))


def rows_of_table(
    compared: Callable[[], Iterator[tuple[str, Any]]], seeds: range
) -> list[list[str]]:
    """A row for each way: its quantile in each world, and its change against ERM."""
    found: dict[str, dict[str, list[float]]] = {}
    for world, draw in WORLDS.items():
        for seed in seeds:
            parts = draw(seed)
            for name, model in compared():
                own = found.setdefault(name, {}).setdefault(world, [])
                own.append(quantile(model, *parts))
    rows = []
    for name, by_world in found.items():
        cells = []
        for world, values in by_world.items():
            change = 100.0 * (np.array(values) / np.array(found["ERM"][world]) - 1.0)
            error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
            told = "" if name == "ERM" else f" ({change.mean():+.1f}% ± {error:.1f})"
            cells.append(f"{np.mean(values):.3f}{told}")
        rows.append([name, *cells])
    return rows


def main() -> None:
    """Measure and print; write into a page if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--library", choices=tuple(MODELS), default="lightgbm")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    library = "lightgbm" if options.sizes else options.library
    name = "sizes of trees" if options.sizes else f"rounds of ERM, {library}"
    told = "trained by" if options.sizes else "trained by, after a share of rounds by ERM"
    seeds = range(options.first, options.first + options.seeds)
    header = [told, *WORLDS]
    rows = rows_of_table(partial(sizes if options.sizes else ways, library), seeds)
    print(aligned(header, rows))
    if options.page is not None:
        write_table(options.page, name, markdown(header, rows))


if __name__ == "__main__":
    main()
