"""choose_level: from what is needed of new domains to the level that gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.selection.cross_fitted import LevelOrMean, cross_fitted_risks
from eqrm.estimators.selection.splitters import DomainKFold
from eqrm.evaluation.inference.certificates import (
    as_percent,
    percent_rounded_down,
    probability_bound,
)
from eqrm.evaluation.inference.risk_checks import (
    checked_alpha,
    checked_confidence,
    checked_threshold,
)
from eqrm.level import Level
from eqrm.linear.settings import check_whole
from eqrm.linear.solving.risk_functions import Array

LEVELS = (None, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class LevelChoice:
    """What :func:`choose_level` found. Printing it gives a table and a sentence.

    ``met`` says whether any level meets the need; ``level`` is the one that does at the least
    mean risk (None if that is ERM, or if none does). ``levels``, ``mean_risks`` (L,), ``shares``
    (L,) of domains within the risk, ``bounds`` (L,) on that share where a confidence was asked
    for, ``quantiles`` (L,) of risk at the probability needed, and ``risks`` (L, m) are all
    cross-fitted: each domain's by models that have not seen it.
    """

    met: bool
    level: LevelOrMean
    risk: float
    probability: float
    confidence: float | None
    levels: tuple[LevelOrMean, ...]
    mean_risks: Array
    shares: Array
    bounds: Array | None
    quantiles: Array
    risks: Array

    @property
    def alpha(self) -> float | None:
        """The level as a number, for ``QRMClassifier(alpha=…)``; None is ERM."""
        return None if self.level is None else self.level.alpha

    @property
    def sentence(self) -> str:
        """The answer in words."""
        share = as_percent(self.probability)
        need = f"a risk of at most {self.risk:.6g} on {share} of new domains"
        sure = "" if self.confidence is None else f" with {as_percent(self.confidence)} confidence"
        domains = self.risks.shape[1]
        if self.met:
            i = self.levels.index(self.level)
            return (
                f"{level_name(self.level)} meets the need of {need}{sure}: on {domains} domains, "
                f"each judged by models that had not seen it, "
                f"{percent_rounded_down(self.shares[i])} are within it{self._bound(i)}, and of "
                "all levels that meet it this one has the least mean risk, "
                f"{self.mean_risks[i]:.4g}."
            )
        best = int(np.lexsort((self.mean_risks, self.quantiles, -self._reached))[0])
        return (
            f"No level meets the need of {need}{sure}. Nearest comes "
            f"{level_name(self.levels[best])}: of {domains} domains, each judged by "
            "models that had not seen it, "
            f"{percent_rounded_down(self.shares[best])} are within it{self._bound(best)}, and "
            f"{share} have at most {self.quantiles[best]:.4g}."
        )

    @property
    def _reached(self) -> Array:
        return self.shares if self.bounds is None else self.bounds

    def _bound(self, i: int) -> str:
        if self.bounds is None:
            return ""
        return f", and at least {percent_rounded_down(self.bounds[i])} of new ones are"

    def __str__(self) -> str:
        header = ["trained for", "mean risk", f"q({self.probability:g})", "within"]
        rows = [header if self.bounds is None else [*header, "at least"]]
        for i, level in enumerate(self.levels):
            row = [level_name(level), f"{self.mean_risks[i]:.4f}", f"{self.quantiles[i]:.4f}"]
            row.append(f"{100.0 * self.shares[i]:.1f}%")
            if self.bounds is not None:
                row.append(percent_rounded_down(self.bounds[i]))
            rows.append(row)
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([*lines, "", self.sentence])


def choose_level(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    *,
    risk: float,
    probability: float,
    confidence: float | None = None,
    levels: Sequence[Level | float | str | None] = LEVELS,
    cv: Any = None,
) -> LevelChoice:
    """The level that meets a need of new domains at the least mean risk, or word that none does.

    The need: a risk of at most ``risk`` on a share ``probability`` of new domains. Every level
    (None is ERM) is fitted to some of the domains and judged on the others, by ``cv``
    (:class:`DomainKFold` in 5 folds, or in as many as a number says). With a ``confidence``, it is
    not enough that the share is reached on these domains: a Clopper–Pearson bound on the share of
    new ones must reach it, at a confidence that covers all levels looked at together. The models of
    different folds differ a little, so this is a bound for their kind, not for one of them: for a
    guarantee of the final predictor, ask its ``certificate`` on domains that were not used at all.

    >>> import numpy as np
    >>> from eqrm import QRMRegressor
    >>> generator = np.random.default_rng(0)
    >>> X, school = generator.normal(size=(900, 2)), np.repeat(np.arange(60), 15)
    >>> slope = np.where(np.arange(60) % 8 == 0, -1.0, 1.0)[school]  # misleads in some schools
    >>> y = X[:, 0] + slope * X[:, 1] + 0.3 * generator.normal(size=900)
    >>> choice = choose_level(QRMRegressor(), X, y, school, risk=2.5, probability=0.95)
    >>> choice.met, choice.level
    (True, Level(0.99))
    >>> print(choose_level(QRMRegressor(), X, y, school, risk=0.5, probability=0.95).sentence)
    No level meets the need of a risk of at most 0.5 on 95% of new domains. Nearest comes ...
    """
    limit, share = checked_threshold(risk), checked_alpha(probability)
    asked = None if confidence is None else checked_confidence(confidence)
    wanted = distinct_levels(levels)
    folds = _folds(cv, groups)
    found = cross_fitted_risks(estimator, wanted, X, y, groups, folds).risks
    means, shares = found.mean(axis=1), (found <= limit).mean(axis=1)
    bounds = None
    if asked is not None:
        together = 1.0 - (1.0 - asked) / len(wanted)
        bounds = np.array([probability_bound(row, limit, together).bound for row in found])
    meets = (shares if bounds is None else bounds) >= share - 1e-12
    best = int(np.argmin(np.where(meets, means, np.inf)))
    quantiles = np.quantile(found, share, axis=1, method="inverted_cdf")
    met = bool(meets.any())
    return LevelChoice(
        met=met,
        level=wanted[best] if met else None,
        risk=limit,
        probability=share,
        confidence=asked,
        levels=wanted,
        mean_risks=means,
        shares=shares,
        bounds=bounds,
        quantiles=quantiles,
        risks=found,
    )


def _folds(cv: Any, groups: Any) -> Any:
    if groups is None:
        raise DomainDataError("New domains need groups: pass the domain of each row as groups.")
    if cv is None:
        return DomainKFold()
    if hasattr(cv, "split"):
        return cv
    return DomainKFold(check_whole(cv, "cv", 2))


def distinct_levels(levels: Sequence[Level | float | str | None]) -> tuple[LevelOrMean, ...]:
    """Levels that are a list and do not repeat; None is ERM."""
    if isinstance(levels, (str, int, float, Level)) or not len(levels):
        raise SettingError(f"levels must be a list of levels, such as [0.5, 0.9], not {levels!r}.")
    found = tuple(None if level is None else Level.of(level) for level in levels)
    if len(set(found)) < len(found):
        raise SettingError("levels must not repeat.")
    return found


def level_name(level: LevelOrMean) -> str:
    """What tables call it.

    >>> level_name(None), level_name(Level(0.9))
    ('ERM', 'alpha = 0.9')
    """
    return "ERM" if level is None else f"alpha = {level}"
