"""Of several surrogates, the one with the lowest α-quantile on domains left out.

Of the candidates within one standard error (and 1%) of the lowest quantile, the one with the lowest
mean risk is taken. Quantiles are Harrell–Davis estimates, which vary less than order statistics do;
candidates are compared by wider ones (:data:`WIDE`), of a range of levels around the goal. With
fewer than 1/(1−α) domains they are little more than the largest risk, which one domain decides.
There, ERM is recalibrated for the level, which takes two numbers and not a fit to domains that are
not there. With or without a scale is chosen by the lower quantile of log-normal laws, where those
are the laws of such risks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eqrm.estimators.selection.surrogates import ERM, RECALIBRATED, CrossFitted, Surrogate
from eqrm.evaluation.inference.resampling import (
    resampled_lognormal_quantiles,
    resampled_smooth_quantiles,
)
from eqrm.level import Level
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import aligned

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
    """The candidates for a level, their cross-fitted risks (C, m), and which of them is best."""

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
        found: Array = (drawn - drawn[:, [compared.argmin()]]).std(axis=0)
        return found

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
    def reason(self) -> str:
        """Why the chosen one was: the end of a sentence."""
        there = "there, averaged over levels near the goal" if self._averaged else "there"
        if self._lowest == self.chosen:
            return f"the lowest quantile {there}"
        if self.lognormal:
            return (
                "as less than one domain lies beyond the level: too few to train for it "
                f"({self._lowest.name} is lowest there by log-normal laws)"
            )
        return (
            f"within one standard error and 1% of the lowest quantile {there} "
            f"({self._lowest.name}), at a lower mean risk"
        )

    @property
    def _lowest(self) -> Surrogate:
        """The first of those that no other is below, but for rounding."""
        compared = self._compared[0]
        least = float(compared.min())
        return self.candidates[int((compared <= least + TIED * abs(least)).argmax())]

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

    def of(self, candidate: Surrogate) -> Array:
        """The cross-fitted risks (m,) of a candidate."""
        found: Array = self.risks[self.candidates.index(candidate)]
        return found

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

    @property
    def sentence(self) -> str:
        """What was chosen, and how sure that is."""
        own, lowest = (self._compared[0][i] for i in (self.place, self._compared[0].argmin()))
        by = "averaged over levels near the goal, " if self._averaged else ""
        rest = (
            f"The quantile of {self._lowest.name} is lower ({by}{lowest:.4g} against {own:.4g}), "
            "but by at most one standard error and 1%, and its mean risk is higher."
        )
        if self._lowest == self.chosen:
            rest = f"No other has a lower one ({by}{own:.4g})."
        elif self.lognormal:
            rest = f"Others are not taken, {self.reason}."
        law = " (by log-normal laws, for want of domains)" if self.lognormal else ""
        return (
            f"Of {len(self.candidates)} ways to reach a low {self.level}-quantile, cross-fitting "
            f"over {self.risks.shape[1]} training domains chose {self.chosen.name}: "
            f"{self.quantiles[self.place]:.4g} on domains left out{law}. {rest} Choosing makes "
            f"this estimate too low by about {self.optimism:.2g}; certificates on other domains "
            "are not affected."
        )


def choose(fits: CrossFitted, level: Level, trained: Sequence[Surrogate]) -> SurrogateChoice:
    """Compare ERM, ERM recalibrated and the ways to train for a level by cross-fitted risks."""
    compared = (ERM, *RECALIBRATED, *trained)
    risks = np.stack([fits.risks(surrogate, level) for surrogate in compared])
    return SurrogateChoice(level, compared, risks)
