"""RiskRobustnessPath: what each level costs on average and gains in the tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from eqrm.errors import SettingError
from eqrm.estimators.base import refuse_seen
from eqrm.estimators.groups import as_groups
from eqrm.estimators.qrm_estimators import QRMClassifier
from eqrm.estimators.selection.level_choice import (
    LEVELS,
    LevelOrMean,
    RisksByLevel,
    distinct_levels,
    fit_levels,
    level_name,
    measured,
)
from eqrm.level import WITHOUT_LEVEL, Level

Self = TypeVar("Self", bound="RiskRobustnessPath")


@dataclass(frozen=True, eq=False)
class RiskFrontier:
    """A fitted predictor per level, with its risks on training and on held-out domains.

    See :class:`RiskRobustnessPath`.
    """

    estimators: tuple[Any, ...]
    training: RisksByLevel
    held_out: RisksByLevel | None

    @property
    def levels(self) -> tuple[LevelOrMean, ...]:
        """The level of each estimator; None is ERM."""
        return self.training.levels

    @property
    def judged(self) -> RisksByLevel:
        """Risks on held-out domains where there are any, else on the training domains."""
        return self.training if self.held_out is None else self.held_out

    def trained_for(self, alpha: Level | float | str | None) -> Any:
        """The predictor of one level of the grid; None is ERM."""
        level = None if alpha is None else Level.of(alpha)
        if level not in self.levels:
            known = ", ".join(level_name(each) for each in self.levels)
            raise SettingError(f"{level_name(level)} is not among the levels fitted: {known}.")
        return self.estimators[self.levels.index(level)]

    def __str__(self) -> str:
        parts = [("training domains", self.training)]
        if self.held_out is not None:
            parts.append(("held-out domains", self.held_out))
        return "\n\n".join(self._table(title, part) for title, part in parts)

    def _table(self, title: str, part: RisksByLevel) -> str:
        numbers = np.column_stack([part.means, part.quantiles])
        best = numbers.argmin(axis=0)
        cells = [
            [f"{v:.4f}{'*' if best[j] == i else ' '}" for j, v in enumerate(row)]
            for i, row in enumerate(numbers)
        ]
        header = ["mean", *(f"q({level})" for level in part.columns)]
        table = part.table(header, cells)
        return f"risk on {len(part.domains)} {title} (* = best)\n{table}"


class RiskRobustnessPath(BaseEstimator):  # type: ignore[misc]
    """Fits a grid of levels, each from its neighbour's solution: the risk-robustness frontier.

    Args:
        estimator: what is fitted at each level, :class:`eqrm.QRMClassifier` unless given; its own
            alpha is not used. A pipeline's last step has the level, and the steps before it are
            fitted once. Its measure is what is minimised at each level.
        levels: the levels to fit; None among them is ERM. The measures ``"worst"`` and ``"mean"``
            have none: the path is then ERM and the smallest worst risk, or ERM alone.

    After ``fit``, ``frontier_`` has ``levels``, ``estimators``, and their risks on ``training`` and
    ``held_out`` domains (``risks`` (L, m), ``means`` (L,), ``quantiles`` (L, K)). Printing it gives
    a table, and ``frontier_.trained_for(0.9)`` one of the predictors.

    >>> import numpy as np
    >>> from eqrm import QRMRegressor
    >>> generator = np.random.default_rng(0)
    >>> X, school = generator.normal(size=(900, 2)), np.repeat(np.arange(60), 15)
    >>> slope = np.where(np.arange(60) % 8 == 0, -1.0, 1.0)[school]  # misleads in some schools
    >>> y = X[:, 0] + slope * X[:, 1] + 0.3 * generator.normal(size=900)
    >>> path = RiskRobustnessPath(QRMRegressor(), levels=[None, 0.5, 0.9]).fit(X, y, school)
    >>> print(path.frontier_)
    risk on 60 training domains (* = best)
    trained for     mean   q(0.5)   q(0.9)
    ERM          0.4881*  0.1420   2.0218
    alpha = 0.5  0.5218   0.0918*  2.5349
    alpha = 0.9  0.8513   0.7809   1.2318*
    """

    def __init__(
        self,
        estimator: Any = None,
        levels: Sequence[Level | float | str | None] = LEVELS,
    ) -> None:
        self.estimator = estimator
        self.levels = levels

    def fit(self: Self, X: Any, y: Any, groups: Any, held_out: Any = None) -> Self:
        """Fit every level to X, y and groups, and evaluate it on ``held_out`` = (X, y, groups) too.

        Raises if held-out domains are also among the training domains.
        """
        base = QRMClassifier() if self.estimator is None else clone(self.estimator)
        measure = getattr(_last(base), "measure", "quantile")
        levels = distinct_levels(self.levels)
        if measure in WITHOUT_LEVEL:
            levels = (None,) if measure == "mean" else (None, Level(1.0))
        names = as_groups(groups, _num_samples(X)).names
        if held_out is not None:
            if not isinstance(held_out, (tuple, list)) or len(held_out) != 3:
                raise SettingError("held_out must be (X, y, groups) of domains not trained on.")
            refuse_seen(as_groups(held_out[2], len(held_out[1])).names, names)
        models = fit_levels(base, levels, X, y, groups)
        self.frontier_ = RiskFrontier(
            tuple(models),
            measured(models, levels, (X, y, groups)),
            None if held_out is None else measured(models, levels, held_out),
        )
        return self


def _last(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model
