"""One training call of a library: what it is given, when its rounds of ERM end and when it stops.

Boosting for a level begins with rounds of ERM. Early stopping watches the measure over validation
domains from then on; the rounds of ERM end early where the mean risk of these domains no longer
falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import Rule, integer, is_integer, number
from eqrm.estimators.boosting.objective import BoostingObjective

ROUNDS_OR_SHARE = Rule(
    "a number of rounds, or a share of n_estimators such as 0.7",
    lambda v: integer(0).holds(v) if is_integer(v) else number(0, 1).holds(v),
)


def number_of_rounds(given: float, total: int) -> int:
    """A number of rounds, or a share of all of them, as a number.

    >>> number_of_rounds(0.7, 150), number_of_rounds(40, 150), number_of_rounds(200, 150)
    (105, 40, 150)
    """
    return min(int(given), total) if is_integer(given) else round(given * total)


@dataclass(eq=False)
class Boosting:
    """``validation`` is a dataset or None; ``patience`` the rounds that early stopping waits.

    While training, ``curve`` gets the measure of the validation domains after each round. A library
    that knows them leaves the margins of training rows after the last round in ``margins``.
    """

    train: Any
    validation: Any
    objective: BoostingObjective
    rounds: int
    patience: int | None = None
    curve: list[float] = field(default_factory=list)
    margins: NDArray[Any] | None = None
    _means: list[float] = field(default_factory=list)

    def metric(self, margins: NDArray[Any], dataset: Any) -> tuple[Any, ...]:
        """What the library is told of the validation domains after each round."""
        found = self.objective.metric(margins, dataset)
        self.curve.append(found[1])
        if self.patience is not None and len(self.curve) <= self.objective.erm_rounds:
            self._means.append(self.objective.metric_at(None)(margins, dataset)[1])
        return found

    # The libraries' own early stopping differs: XGBoost's reads metrics from text with six
    # decimals, which is nothing where squared errors are small.
    def over(self) -> bool:
        """Whether training ends after this round."""
        done = len(self.curve)
        if self.patience is None or not done:
            return False
        if done < self.objective.erm_rounds:
            if done - _best(self._means) >= self.patience:
                self.objective.erm_rounds = done
            return False
        return done - max(_best(self.curve), self.objective.erm_rounds) >= self.patience

    @property
    def best(self) -> int | None:
        """The rounds to keep, where early stopping decides."""
        return None if self.patience is None else _best(self.curve)


def _best(curve: Sequence[float]) -> int:
    return int(np.argmin(curve)) + 1
