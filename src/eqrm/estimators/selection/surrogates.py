"""Which surrogate reaches the lowest α-quantile on new domains: chosen by cross-fitting.

The aim is the α-quantile of risk over *new* domains. What is minimised on the training domains to
get there, the surrogate, may be something else. Each candidate is fitted to four fifths of the
domains and measured on the others, five times over, and one is chosen (:class:`SurrogateChoice`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from eqrm.errors import DomainDataError
from eqrm.estimators.groups import Groups
from eqrm.estimators.selection.splitters import DomainKFold, Split
from eqrm.evaluation.inference.sureness import (
    resampled_lognormal_quantiles,
    resampled_smooth_quantiles,
)
from eqrm.level import Level
from eqrm.linear.recalibration import cross_recalibrated, recalibrate
from eqrm.linear.scored_rows import Correction, ScoredRows
from eqrm.linear.solving.kernel_measures import MeasureChoice
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import aligned

FOLDS = 5
FEWEST_DOMAINS = 10
"""With fewer, a choice would be made by chance: the level itself is trained for."""
QUANTILE_TAILS = (4.0, 2.0, 1.0, 0.5)
"""1 − level of EQRM's candidates, in units of 1 − α."""
SUPERQUANTILE_TAILS = (5.0, 2.5, 1.0)
LEAST_QUANTILE = 0.5
"""Quantiles below the median and the goal are not minimised: they may have no minimum."""
SHIFT, SHIFT_AND_SCALE = "shift", "shift and scale"


@dataclass(frozen=True)
class Surrogate:
    """A measure at a level, minimised on the training domains; ``correction`` is of its scores."""

    measure: str = "mean"
    level: Level | None = None
    correction: str | None = None

    @property
    def name(self) -> str:
        """What tables call it."""
        if self.level is not None:
            kind = "EQRM" if self.measure == "quantile" else self.measure
            return f"{kind} at {self.level}"
        return "ERM" if self.correction is None else f"ERM recalibrated ({self.correction})"


ERM = Surrogate()
RECALIBRATED = (Surrogate(correction=SHIFT), Surrogate(correction=SHIFT_AND_SCALE))


def trained_candidates(level: Level, few: bool = False) -> tuple[Surrogate, ...]:
    """The ways to train for a level; with ``few``, for models that take long, two of them."""
    quantiles = (1.0,) if few else QUANTILE_TAILS
    superquantiles = (2.5,) if few else SUPERQUANTILE_TAILS
    least = min(level.alpha, LEAST_QUANTILE)
    found = [Surrogate("quantile", _with_tail(level, k)) for k in quantiles]
    found = [s for s in found if s.level is not None and s.level.alpha >= least]
    found += [Surrogate("superquantile", _with_tail(level, k)) for k in superquantiles]
    return tuple(s for s in found if s.level is not None)


def _with_tail(level: Level, factor: float) -> Level | None:
    """The level whose tail is this many times as large, where there is one."""
    if factor == 1.0:
        return level
    tail = level.log_tail + math.log(factor)
    if tail >= -1e-9:
        return None
    alpha = round(-math.expm1(tail), 9)
    return Level(alpha) if alpha < 1.0 - 1e-6 else Level(log_tail=tail)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Scores of every row by predictors that have not seen its domain.

    ``scores`` holds those of ``fits``, which are surrogates without correction; ``target`` (n,)
    are numbers, ``classes`` is K or 0; ``folds`` (n,) says in which fold a row was left out, −1 if
    in none. With ``in_time`` a correction is fitted to earlier folds, and the first is not judged.
    ``drawn`` (n,) are the rows that models and corrections are fitted to, where not all.
    """

    fits: tuple[Surrogate, ...]
    scores: tuple[Array, ...]
    target: NDArray[Any]
    classes: int
    groups: Groups
    folds: NDArray[np.int64]
    sample_weight: Array | None = None
    choice: MeasureChoice | None = None
    """The distribution whose quantile a correction is to lower; None is a KDE."""
    in_time: bool = False
    drawn: NDArray[np.bool_] | None = None

    @property
    def judged(self) -> NDArray[np.bool_]:
        """The rows (n,) of domains whose risks are compared."""
        return self.folds >= (1 if self.in_time else 0)

    def scores_of(self, surrogate: Surrogate, level: Level) -> Array:
        """The scores of all rows; a correction for ``level`` is fitted to other folds."""
        scores = self.scores[self.fits.index(Surrogate(surrogate.measure, surrogate.level))]
        if surrogate.correction is None:
            return scores
        return cross_recalibrated(
            lambda kept: self._rows(scores, self._fitted_to(kept)),
            scores,
            self.folds,
            level,
            self.choice,
            scaled=surrogate.correction == SHIFT_AND_SCALE,
            in_time=self.in_time,
        )

    def risks(self, surrogate: Surrogate, level: Level) -> Array:
        """The risk of each judged domain (m,); see :meth:`scores_of`."""
        return self._rows(self.scores_of(surrogate, level), self.judged).risks(Correction())

    def _fitted_to(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return kept if self.drawn is None else kept & self.drawn

    def correction(self, surrogate: Surrogate, level: Level) -> Correction:
        """The correction for a level of a predictor that is fitted to all domains."""
        if surrogate.correction is None:
            return Correction()
        scores = self.scores[self.fits.index(Surrogate(surrogate.measure, surrogate.level))]
        rows = self._rows(scores, self._fitted_to(self.folds >= 0))
        scaled = surrogate.correction == SHIFT_AND_SCALE
        return recalibrate(rows, level, self.choice, scaled=scaled)

    @cached_property
    def _by_domain(self) -> NDArray[np.int64]:
        """The rows, domain by domain: sorted once, for all candidates and folds."""
        return np.argsort(self.groups.ids, kind="stable")

    def _rows(self, scores: Array, kept: NDArray[np.bool_]) -> ScoredRows:
        rows = self._by_domain[kept[self._by_domain]]
        own = self.groups.ids[rows]
        ids = np.cumsum(np.diff(own, prepend=own[:1]) != 0)
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        return ScoredRows.of(scores[rows], self.target[rows], self.classes, ids, weights)


def cross_fit(
    estimator: Any,
    fits: Sequence[Surrogate],
    X: Any,
    y: NDArray[Any],
    groups: Groups,
    sample_weight: Array | None = None,
    apart: NDArray[np.int64] | None = None,
    splits: Sequence[Split] | None = None,
    in_time: bool = False,
    drawn: NDArray[np.bool_] | None = None,
) -> CrossFitted:
    """Fit every surrogate on the training domains of every fold, and score the other rows.

    ``estimator`` is one of eqrm's, not fitted. ``y`` holds labels, or numbers. ``apart`` (n,) says
    which rows no fold separates: those of a group of domains; by default those of a domain.
    ``splits`` are the rows to train on and to score of each fold, by default five folds of whole
    domains; ``in_time`` and ``drawn`` are as in :class:`CrossFitted`.
    """
    labels = y if hasattr(estimator, "predict_proba") else None
    classes = np.unique(labels) if labels is not None else np.empty(0)
    target = y if labels is None else np.searchsorted(classes, y)
    named = np.asarray(getattr(estimator, "classes_", classes))
    named = named if len(named) == len(classes) else classes
    folds = np.full(len(y), -1, dtype=np.int64)
    scores: list[Array] = []
    if splits is None:
        splits = whole_domain_folds(groups.ids if apart is None else apart, FOLDS)
    for fold, (train, test) in enumerate(splits):
        folds[test] = fold
        train = train if drawn is None else train[drawn[train]]
        missing = [str(c) for c in named[~np.isin(classes, y[train])].tolist()]
        if missing:
            raise DomainDataError(
                f"Class {', '.join(missing[:3])} occurs in too few domains "
                "to choose a surrogate by cross-fitting: use surrogate=None."
            )
        weights = None if sample_weight is None else sample_weight[train]
        part = _safe_indexing(X, train), y[train], groups.ids[train], weights
        for place, model in enumerate(fitted(estimator, fits, *part)):
            found = model._checked_scores(_safe_indexing(X, test))
            if fold == 0:
                scores.append(np.zeros((len(y), *found.shape[1:])))
            scores[place][test] = found
    choice = MeasureChoice.of(estimator.distribution, "quantile", estimator.bandwidth)
    about = sample_weight, choice, in_time, drawn
    return CrossFitted(tuple(fits), tuple(scores), target, len(classes), groups, folds, *about)


def whole_domain_folds(ids: NDArray[np.int64], folds: int) -> list[Split]:
    """Splits that keep domains whole; no more of them than there are domains."""
    splitter = DomainKFold(min(folds, len(np.unique(ids))), random_state=0)
    return list(splitter.split(ids, groups=ids))


def fitted(
    estimator: Any, fits: Sequence[Surrogate], X: Any, y: Any, groups: Any, sample_weight: Any
) -> list[Any]:
    """A fitted estimator per surrogate, without correction; they share what they can."""
    data = X, y, groups, sample_weight
    if hasattr(estimator, "_fit_goals"):
        found: list[Any] = estimator._fit_goals([as_settings(s) for s in fits], *data)
    else:  # somebody else's, which knows no goal but ERM
        found = clone(estimator).fit_levels([s.level for s in fits], *data)
    return found


def as_settings(surrogate: Surrogate) -> dict[str, Any]:
    """Parameters of an estimator that minimise this surrogate."""
    measure = "quantile" if surrogate.measure == "mean" else surrogate.measure
    found = {"alpha": surrogate.level, "measure": measure, "surrogate": None}
    if measure == "superquantile":  # of the empirical distribution, whatever the quantile is of
        found |= {"distribution": None, "bandwidth": "gaussian-optimal"}
    return found


RESAMPLES = 500
WIDE = 4.0
"""Candidates are compared by weights as wide as those of so many times fewer domains."""
NEAR = 0.01
"""How far above the lowest quantile, as a share of it, a lower mean risk can be preferred."""
FARTHEST, LARGEST_EXTRAPOLATION = 0.1, 10.0
"""The least number of domains expected beyond a level for which a law is extrapolated to it, and
how many times the largest risk its quantile may be: beyond, risks do not follow the law."""
TIED = 1e-9
"""Differences of this share are rounding: the first of such candidates is taken."""


@dataclass(frozen=True, eq=False)
class SurrogateChoice:
    """The candidates for a level, their cross-fitted risks (C, m), and which of them is best.

    Of those within one standard error (and 1%) of the lowest quantile, it is the one with the
    lowest mean risk. Quantiles are Harrell–Davis estimates; candidates are compared by wider ones
    (:data:`WIDE`), of a range of levels around the goal. With fewer than 1/(1−α) domains they are
    little more than the largest risk, which one domain decides. There, ERM is recalibrated for the
    level, with or without a scale by the lower quantile of log-normal laws, where those are the
    laws of such risks.
    """

    level: Level
    candidates: tuple[Surrogate, ...]
    risks: Array

    @cached_property
    def _compared(self) -> tuple[Array, Array]:
        """What the candidates are compared by (C,), and the same in resamples."""
        if self.lognormal:
            return resampled_lognormal_quantiles(self.risks, self.level, RESAMPLES, seed=0)
        return resampled_smooth_quantiles(self.risks, self.level, RESAMPLES, seed=0, wide=WIDE)

    @cached_property
    def lognormal(self) -> bool:
        """Whether quantiles are of log-normal laws: less than one domain is beyond the level.

        Not where a law is far above the largest risk: it is not the law of those risks.
        """
        beyond = self.risks.shape[1] * self.level.tail
        if not (FARTHEST <= beyond < 1.0 - TIED and bool((self.risks > 0.0).all())):
            return False
        found, _ = resampled_lognormal_quantiles(self.risks, self.level, 0, seed=0)
        return bool((found < LARGEST_EXTRAPOLATION * self.risks.max(axis=1)).all())

    @cached_property
    def _averaged(self) -> bool:
        """Whether candidates are compared by something else than the quantile at the level."""
        return not self.lognormal and not np.allclose(self._compared[0], self.quantiles, rtol=1e-12)

    @cached_property
    def quantiles(self) -> Array:
        """The α-quantile of each candidate over domains left out (C,)."""
        if self.lognormal:
            return self._compared[0]
        return resampled_smooth_quantiles(self.risks, self.level, 0, seed=0)[0]

    @cached_property
    def means(self) -> Array:
        """The mean risk of each candidate over domains left out (C,)."""
        return np.asarray(self.risks.mean(axis=1))

    @cached_property
    def errors(self) -> Array:
        """The standard error of each candidate's difference from the lowest (C,)."""
        compared, drawn = self._compared
        return np.asarray((drawn - drawn[:, [compared.argmin()]]).std(axis=0))

    @property
    def place(self) -> int:
        """The candidate chosen: lowest mean risk within one standard error of the lowest.

        And within 1%: with few domains a standard error can be large. By log-normal laws, the
        lowest of those that are recalibrated.
        """
        compared = self._compared[0]
        if self.lognormal:
            corrected = [s.correction is not None for s in self.candidates]
            allowed = corrected if any(corrected) else [True] * len(corrected)
            return int(np.where(allowed, compared, np.inf).argmin())
        lowest = float(compared.min())
        most = np.maximum(np.minimum(self.errors, NEAR * abs(lowest)), TIED * abs(lowest))
        means = np.where(compared - lowest <= most, self.means, np.inf)
        return int((means <= means.min() + TIED * abs(means.min())).argmax())

    @property
    def chosen(self) -> Surrogate:
        """See :attr:`place`."""
        return self.candidates[self.place]

    @property
    def trained(self) -> Surrogate:
        """The chosen one if it was trained for the level, else the best of those that were."""
        return self._best([s for s in self.candidates if s.level is not None])

    @property
    def recalibrated(self) -> Surrogate:
        """The chosen one if it is recalibrated, else the better of those that are."""
        return self._best(RECALIBRATED)

    def _best(self, among: Sequence[Surrogate]) -> Surrogate:
        if self.chosen in among:
            return self.chosen
        return min(among, key=lambda s: self._compared[0][self.candidates.index(s)])

    @cached_property
    def optimism(self) -> float:
        """By how much the quantile of a chosen candidate is too low, because it was chosen.

        In each resample of the domains the lowest is picked, and its quantile there is compared
        with its quantile over all domains.
        """
        drawn = self._compared[1]
        picked = drawn.argmin(axis=1)
        if self._averaged:  # the same resamples
            _, drawn = resampled_smooth_quantiles(self.risks, self.level, RESAMPLES, seed=0)
        own = drawn[np.arange(len(drawn)), picked] - drawn.mean(axis=0)[picked]
        return max(0.0, -float(own.mean()))

    def table(self) -> str:
        """A line per candidate: quantile and mean risk over domains left out.

        "Averaged near" is what candidates are compared by, unless that is the quantile itself.
        """
        columns = [
            ["minimised", *(surrogate.name for surrogate in self.candidates)],
            [f"{self.level}-quantile", *(f"{value:.4g}" for value in self.quantiles)],
            ["averaged near", *(f"{value:.4g}" for value in self._compared[0])],
            ["± from lowest", *(f"{value:.2g}" for value in self.errors)],
            ["mean risk", *(f"{value:.4g}" for value in self.means)],
            ["", *("chosen" if i == self.place else "" for i in range(len(self.candidates)))],
        ]
        if not self._averaged:
            del columns[2]
        return aligned([list(line) for line in zip(*columns, strict=True)])


def choose(fits: CrossFitted, level: Level, trained: Sequence[Surrogate]) -> SurrogateChoice:
    """Compare ERM, ERM recalibrated and the ways to train for a level by cross-fitted risks."""
    compared = (ERM, *RECALIBRATED, *trained)
    risks = np.stack([fits.risks(surrogate, level) for surrogate in compared])
    return SurrogateChoice(level, compared, risks)
