"""What the results say: the choice of hyperparameters, Table 1, candidates, Figure 3 E and F."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from eqrm import KDE
from studies.colored_mnist.digits_by_seed import REDRAWN, TEST, TESTS, VALIDATION
from studies.colored_mnist.experiment import Array, BlockCost, SettingResult
from studies.colored_mnist.settings import (
    INITIALISATIONS,
    NAMES,
    PAPER,
    RANDOM,
    WITH_STEPS,
    MnistSettings,
    TableSetting,
)

BY_TEST_DOMAIN = "test-domain validation"
BY_TRAINING_DOMAINS = "training-domain validation"
BY_TEST_SET = "test set"
RULES: dict[str, Callable[[SettingResult], float]] = {
    BY_TEST_DOMAIN: lambda found: float(found.on(VALIDATION[-1]).mean()),
    BY_TRAINING_DOMAINS: lambda found: float(
        np.mean([found.on(name).mean() for name in VALIDATION[:-1]])
    ),
    BY_TEST_SET: lambda found: float(found.on(TEST).mean()),
}
"""How a hyperparameter is chosen: by the mean accuracy over seeds after the last step. The first
is the paper's, the second needs no look at the test domain, the last is the published code's."""


@dataclass(frozen=True)
class MnistCell:
    """A cell of Table 1: the chosen setting, and its accuracies (seeds,) in per cent.

    ``grid`` is that of the values it was chosen from, or the change of the recipe.
    """

    grid: str
    selection: str
    chosen: SettingResult

    @property
    def key(self) -> tuple[str, str]:
        """Method and initialisation."""
        return self.chosen.setting.method, self.chosen.setting.initialisation

    @property
    def accuracies(self) -> Array:
        """On the test domain."""
        return self.chosen.on(TEST)

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(self.accuracies.mean())

    @property
    def std(self) -> float:
        """Over seeds."""
        return float(self.accuracies.std(ddof=1))

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.std / math.sqrt(len(self.accuracies))

    @property
    def paper(self) -> tuple[float, float]:
        """Mean and standard deviation in the paper."""
        return PAPER[self.key]

    @property
    def distance(self) -> float:
        """From the paper, in combined standard deviations."""
        mean, std = self.paper
        return (self.mean - mean) / math.hypot(self.std, std)


@dataclass(frozen=True, eq=False)
class MnistFindings:
    """All results: of the standard recipe by setting, of others by name and setting."""

    settings: MnistSettings
    standard: Mapping[TableSetting, SettingResult]
    changed: Mapping[str, Mapping[TableSetting, SettingResult]]
    unfinished: Sequence[str]

    @property
    def costs(self) -> list[BlockCost]:
        """Of every block, once."""
        results = [
            *self.standard.values(),
            *(r for of in self.changed.values() for r in of.values()),
        ]
        return list(dict.fromkeys(result.cost for result in results))

    def rows(self) -> list[MnistCell]:
        """Every cell, by grid and by rule; cells of which a value is missing are left out."""
        found = []
        for grid, rule in product(self.settings.grids, RULES):
            for method, start in product(NAMES, INITIALISATIONS):
                row = self.row(grid, rule, method, start)
                if row is not None:
                    found.append(row)
        return found

    def row(self, grid: str, rule: str, method: str, start: str) -> MnistCell | None:
        """One cell, if all of its values have been trained."""
        if method in WITH_STEPS and start != RANDOM:
            return None
        values = self.settings.grids.get(grid, {}).get(method, ())
        results = [self.standard.get(TableSetting(method, start, value)) for value in values]
        found = [result for result in results if result is not None]
        if not found or len(found) < len(results):
            return None
        return MnistCell(grid, rule, max(found, key=RULES[rule]))

    def with_changes(self, method: str, start: str) -> list[MnistCell]:
        """The same cell by every changed recipe and value that was trained with it."""
        return [
            MnistCell(name, BY_TEST_DOMAIN, result)
            for name, results in self.changed.items()
            for setting, result in results.items()
            if (setting.method, setting.initialisation) == (method, start)
        ]

    def flattery(self) -> list[float]:
        """By how much the test set as judge raises each test accuracy, over the paper's rule."""
        means = {(row.grid, row.key, row.selection): row.mean for row in self.rows()}
        return [
            mean - means[grid, key, BY_TEST_DOMAIN]
            for (grid, key, rule), mean in means.items()
            if rule == BY_TEST_SET
        ]

    def figure(self) -> list[SettingResult]:
        """EQRM at growing levels, those that have been trained."""
        wanted = self.settings.figure_settings()
        return [self.standard[setting] for setting in wanted if setting in self.standard]


def over_flips(result: SettingResult) -> Array:
    """(11,) the mean accuracy over seeds at every colour flip, in per cent."""
    return np.array([result.on(name).mean() for name in TESTS])


def accuracy_law(result: SettingResult) -> KDE:
    """The law of the accuracy over test domains, by a kernel density estimate."""
    return KDE(torch.from_numpy(over_flips(result)))


def share_below(result: SettingResult, accuracy: float) -> float:
    """The estimated probability of a test domain with a lower accuracy (in per cent)."""
    return float(accuracy_law(result).cdf(accuracy))


def redrawn(result: SettingResult) -> tuple[float, float]:
    """The mean accuracy in another draw of the test domain, and on validation digits there."""
    return float(result.on(REDRAWN).mean()), float(result.on(VALIDATION[-1]).mean())
