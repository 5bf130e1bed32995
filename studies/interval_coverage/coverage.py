"""How often the intervals of the package hold in each world, and how wide they are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eqrm import Level
from eqrm.evaluation import paired_differences, risk_intervals
from eqrm.evaluation.inference.intervals import quantile_pairs
from eqrm.evaluation.inference.sureness import smooth_quantile
from studies.interval_coverage.worlds import (
    LAWS,
    QUANTILE,
    Array,
    Truth,
    bootstrapped,
    truth_of,
)

LEVELS = (0.5, 0.9, 0.99)
Ends = tuple[float, float]
OPEN: Ends = (-math.inf, math.inf)
ONE, TWO, CHANGE = "one predictor", "difference", "change"
CHOSEN, REFERENCES, RESAMPLES = 0.9, 4, 300
"""The level at which a predictor is compared with the best of so many references; resamples."""
SAME = 1e-9
"""Ends that miss by less, relatively to the truth, do not miss: the truth is rounded."""


class IntervalCase(NamedTuple):
    """A law, how many domains are drawn of it, and the confidence asked for."""

    law: str
    domains: int
    confidence: float


@dataclass
class CoveredInterval:
    """What became of one kind of interval in the worlds of a case.

    ``needed`` domains give both ends. ``given`` counts worlds with an interval, ``held`` those in
    which nothing false was stated, ``width`` adds up the widths of ``both`` ends.
    """

    case: IntervalCase
    what: str
    label: str
    needed: float
    worlds: int = 0
    given: int = 0
    held: int = 0
    both: int = 0
    width: float = 0.0

    def count(self, ends: Ends, true: float) -> None:
        """Add a world."""
        low, high = ends
        slack = SAME * (1.0 + abs(true)) if math.isfinite(true) else 0.0
        self.worlds += 1
        self.given += math.isfinite(low) or math.isfinite(high)
        self.held += bool(low - slack <= true <= high + slack) or math.isnan(true)
        if math.isfinite(high - low):
            self.both += 1
            self.width += high - low

    @property
    def coverage(self) -> float:
        """The share of worlds in which nothing false was stated."""
        return self.held / self.worlds

    @property
    def mean_width(self) -> float:
        """NaN where no interval had two ends."""
        return self.width / self.both if self.both else math.nan


Counted = dict[tuple[str, str], CoveredInterval]


def _counted(
    found: Counted, case: IntervalCase, what: str, label: str, needed: float = 0.0
) -> CoveredInterval:
    """The count of one kind of interval, in the order in which kinds were met."""
    return found.setdefault((what, label), CoveredInterval(case, what, label, needed))


def interval_coverage(case: IntervalCase, worlds: int, seed: int) -> list[CoveredInterval]:
    """Count how often each kind of interval holds in so many worlds."""
    generator, found, chosen = _generator(case, seed), Counted(), Level(CHOSEN)
    truth, levels = truth_of(case.law, LEVELS), tuple(map(Level, LEVELS))
    for _ in range(worlds):
        first, second = LAWS[case.law](generator, (case.domains,))
        for one in risk_intervals(first, levels, case.confidence):
            true = truth.first[one.statistic, one.level]
            ends = one.low, one.high
            _counted(found, case, ONE, one.label, one.needed).count(ends, true)
        needed = dict[float | None, float]()
        for two in paired_differences(first, second, levels, case.confidence):
            true = truth.difference((two.statistic, two.level))
            ends = two.low, two.high
            _counted(found, case, TWO, two.label, two.needed).count(ends, true)
            if two.statistic == QUANTILE:
                needed[two.level] = two.needed
        others = [LAWS[case.law](generator, (case.domains,))[0] for _ in range(1, REFERENCES)]
        for label, level, reference in (
            *((f"{alpha:g}", level, first) for alpha, level in zip(LEVELS, levels, strict=True)),
            (
                f"{CHOSEN:g}, best of {REFERENCES}",
                chosen,
                best_reference(second, [first, *others], chosen),
            ),
        ):
            true = truth.change((QUANTILE, level.alpha))
            if math.isfinite(true):
                pairs = quantile_pairs(reference, second, level, case.confidence)
                ends = OPEN if pairs is None else pairs.change()
                _counted(found, case, CHANGE, label, needed[level.alpha]).count(ends, true)
    return list(found.values())


def best_reference(predictor: Array, references: Sequence[Array], level: Level) -> Array:
    """The one against which the predictor gains least, as a verdict chooses it.

    All of them have the same law and are independent: nothing makes a choice more misleading.
    """
    after = smooth_quantile(predictor, level)
    before = [smooth_quantile(each, level) for each in references]
    changes = [(after - each) / (abs(each) or 1.0) for each in before]
    return references[int(np.argmax(changes))]


def bootstrap_coverage(case: IntervalCase, worlds: int, seed: int) -> list[CoveredInterval]:
    """The same of percentiles of a bootstrap, which is what they are compared with."""
    generator, found = _generator(case, seed), Counted()
    truth, tail = truth_of(case.law, LEVELS), (1.0 - case.confidence) / 2.0
    for _ in range(worlds):
        first, second = LAWS[case.law](generator, (case.domains,))
        draws = generator.integers(0, case.domains, (RESAMPLES, case.domains))
        drawn = bootstrapped(first, second, LEVELS, draws)
        for what, values in ((ONE, drawn[0]), (TWO, drawn[1] - drawn[0])):
            ends = np.quantile(values, [tail, 1.0 - tail], axis=1).T.tolist()
            for (label, true), (low, high) in zip(_named(truth, what), ends, strict=True):
                _counted(found, case, what, label).count((low, high), true)
    return list(found.values())


def _named(truth: Truth, what: str) -> Iterator[tuple[str, float]]:
    """The statistics in the order of :func:`bootstrapped`, with labels and truth."""
    kinds = defaultdict(list)
    for statistic in truth.first:
        kinds[statistic[0]].append(statistic)
    for kind, statistics in kinds.items():
        for statistic in statistics:
            level = "" if statistic[1] is None else f"{statistic[1]:g}"
            label = {"mean": "mean", "quantile": level}.get(kind, f"beyond {level}")
            true = truth.first[statistic] if what == ONE else truth.difference(statistic)
            yield label, true


def _generator(case: IntervalCase, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, list(LAWS).index(case.law), case.domains])
