"""Kinds of domains: each is a normal effect, from which its labels and predictions are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri, softmax

from eqrm.evaluation.measuring.rows import RowsOfPredictions
from studies.domains_in_time.worlds import Generator, Vector

Places = NDArray[np.int64]
OUTSIDE, WIDEST = 0.15, 500
"""The share of domains whose slope is reversed; the rows of the largest of unequal domains."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows: the number of their ``domain`` (n,), the label, what each model predicts, a unit."""

    domain: NDArray[np.int32]
    labels: Vector
    predictions: tuple[Vector, ...]
    numbers: bool = False
    scale: Vector | None = None

    def rows(self, model: int = 0) -> RowsOfPredictions:
        """As the package keeps them: of numbers, how far outside they are, the width, the unit."""
        given = self.predictions[model]
        if not self.numbers:
            return RowsOfPredictions(self.domain, self.labels, given)
        low, high = (given, given) if given.ndim == 1 else given.T
        unit = np.ones(len(low)) if self.scale is None else self.scale
        away = np.maximum(low - self.labels, self.labels - high) / unit
        return RowsOfPredictions(self.domain, away, np.column_stack([high - low, unit]))


Effects = list[Vector]
Draw = Callable[[Generator, Effects, NDArray[np.int32]], Drawn]


@dataclass(frozen=True)
class World:
    """How rows are drawn from the effects (m,) of domains, one array per model.

    ``truth`` gives the setting that each domain truly needs, from effects and the share allowed;
    ``sizes`` the rows of each domain, where they are not the same.
    """

    draw: Draw
    truth: Callable[[Vector, float], Vector] | None = None
    sizes: Callable[[Vector], Places] | None = None

    def drawn(self, generator: Generator, effects: Vector, rows: int, models: int = 1) -> Drawn:
        """Rows of domains with these effects; models have effects of their own besides."""
        sizes = np.full(len(effects), rows) if self.sizes is None else self.sizes(effects)
        ids = np.repeat(np.arange(len(effects), dtype=np.int32), sizes)
        own = [generator.normal(size=len(effects)) for _ in range(models - 1)]
        mixed = [0.7 * effects + 0.7 * each for each in own]
        return self.draw(generator, [effects, *mixed], ids)


def two_classes(
    slope: Callable[[Vector], Vector] = lambda e: 1.8 - 0.6 * e,
    chance: Callable[[Vector], Vector] = lambda e: np.full(len(e), 0.5),
    tails: float = np.inf,
    digits: int = 15,
) -> Draw:
    """Probabilities from scores, whose slope depends on the domain: the higher e, the worse."""

    def draw(generator: Generator, effects: Effects, ids: NDArray[np.int32]) -> Drawn:
        labels = _as_labels(generator.random(len(ids)) < chance(effects[0])[ids])
        scores = [slope(e)[ids] * (2 * labels - 1) + _noise(generator, ids, tails) for e in effects]
        return Drawn(ids, labels, tuple(np.round(expit(2.0 * s), digits) for s in scores))

    return draw


def four_classes(tails: float = np.inf) -> Draw:
    """Probabilities of four classes."""

    def draw(generator: Generator, effects: Effects, ids: NDArray[np.int32]) -> Drawn:
        labels = generator.integers(0, 4, len(ids))
        given = []
        for e in effects:
            logits = _noise(generator, (len(ids), 4), tails)
            logits[np.arange(len(ids)), labels] += (2.5 - 0.8 * e)[ids]
            given.append(softmax(logits, axis=1))
        return Drawn(ids, labels.astype(np.float64), tuple(given))

    return draw


def numbers(form: str = "", tails: float = np.inf) -> Draw:
    """Numbers around predictions, with a spread of each domain; with ends, or with a scale."""

    def draw(generator: Generator, effects: Effects, ids: NDArray[np.int32]) -> Drawn:
        centre, given = generator.normal(size=len(ids)), []
        spread = np.exp(0.5 * effects[0])[ids]
        labels, unit = centre + spread * _noise(generator, ids, tails), None
        for e in effects:
            error = 0.0 if e is effects[0] and len(effects) == 1 else 0.3 * np.exp(0.5 * e)[ids]
            given.append(centre + error * generator.normal(size=len(ids)))
        if form == "ends":
            wide = generator.uniform(0.2, 1.0, len(ids))
            given = [np.column_stack([each - wide, each + wide]) for each in given]
        if form == "scale":
            unit = spread * np.exp(0.3 * generator.normal(size=len(ids)))
        return Drawn(ids, labels, tuple(given), numbers=True, scale=unit)

    return draw


def _as_labels(positive: Any) -> Vector:
    return np.asarray(positive, dtype=np.float64)


def _noise(generator: Generator, like: Any, tails: float) -> Vector:
    shape = like if isinstance(like, tuple) else like.shape
    if tails == np.inf:
        return generator.normal(size=shape)
    return generator.standard_t(tails, size=shape)


def _reversed(effects: Vector) -> Vector:
    return np.where(ndtr(effects) > 1.0 - OUTSIDE, -1.0, 1.0) * (1.8 + 0.3 * np.sin(9.0 * effects))


def _unequal(effects: Vector) -> Places:
    """From 5 to 500 rows: the worse a domain, the fewer."""
    return np.asarray(5.0 * (WIDEST / 5.0) ** ndtr(-effects), dtype=np.int64)


def _confident(generator: Generator, effects: Effects, ids: NDArray[np.int32]) -> Drawn:
    """Uniform confidences c, wrong with the probability 2h(1 − c), h that of the domain."""
    sure, guess = generator.uniform(0.5, 1.0, len(ids)), generator.random(len(ids)) < 0.5
    wrong = generator.random(len(ids)) < 2.0 * _hardness(effects[0])[ids] * (1.0 - sure)
    return Drawn(ids, _as_labels(guess ^ wrong), (np.where(guess, sure, 1.0 - sure),))


def _hardness(effects: Vector) -> Vector:
    return np.asarray(0.1 + 0.5 * ndtr(effects))


def _confidence_needed(effects: Vector, allowed: float) -> Vector:
    """The share answered wrongly above λ is 2h(1 − λ)², and h/2 of all."""
    hard = _hardness(effects)
    return np.where(hard / 2.0 <= allowed, 0.0, 1.0 - np.sqrt(allowed / (2.0 * hard)))


def _normal_scores(chance: float) -> Draw:
    """Probabilities Φ(z ± (1.5 − 0.5e)) of positives and negatives."""

    def draw(generator: Generator, effects: Effects, ids: NDArray[np.int32]) -> Drawn:
        labels = _as_labels(generator.random(len(ids)) < chance)
        shift = (2.0 * labels - 1.0) * (1.5 - 0.5 * effects[0])[ids]
        return Drawn(ids, labels, (ndtr(shift + generator.normal(size=len(ids))),))

    return draw


def _missed_needed(effects: Vector, allowed: float) -> Vector:
    return np.asarray(-ndtr(1.5 - 0.5 * effects + ndtri(allowed)))


def _alarms_needed(effects: Vector, allowed: float) -> Vector:
    return np.asarray(ndtr(-1.5 + 0.5 * effects + ndtri(1.0 - allowed)))


def _width_needed(effects: Vector, allowed: float) -> Vector:
    return np.asarray(np.exp(0.5 * effects) * ndtri(1.0 - allowed / 2.0))


PLAIN, FOUR, NUMBERS, GRID = "two classes", "four classes", "numbers", "losses on a grid"
RARE = "true: 1 positive in 5,000"
WORLDS = {
    PLAIN: World(two_classes()),
    "slope reversed in 15%": World(two_classes(_reversed)),
    "shifted base rate": World(two_classes(chance=lambda e: expit(-1.0 + 1.5 * e))),
    "classes, heavy tails": World(two_classes(lambda e: 4.0 * np.exp(-0.5 * e), tails=1.5)),
    "ties: one digit": World(two_classes(digits=1)),
    "5 to 500 rows": World(two_classes(), sizes=_unequal),
    FOUR: World(four_classes()),
    "four classes, heavy tails": World(four_classes(2.0)),
    NUMBERS: World(numbers()),
    "numbers with ends": World(numbers("ends")),
    "numbers with a scale": World(numbers("scale")),
    "numbers, heavy tails": World(numbers(tails=1.2)),
    "true: confidence": World(_confident, _confidence_needed),
    "true: scores": World(_normal_scores(0.5), _missed_needed),
    "true: negatives": World(_normal_scores(0.5), _alarms_needed),
    RARE: World(_normal_scores(0.0002), _missed_needed),
    "true: numbers": World(numbers(), _width_needed),
}


def grid_means(generator: Generator, effects: Vector, rows: int, settings: Vector) -> Vector:
    """Mean losses (m, G) that fall with the setting, and noise, so that they may rise again."""
    hard = 0.5 + 0.2 * effects[:, None]
    noise = generator.exponential(0.1, (len(effects), len(settings), rows)).mean(axis=2)
    return np.asarray(np.maximum(hard - settings, 0.0) + noise)
