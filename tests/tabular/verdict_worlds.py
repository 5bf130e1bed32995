"""Twenty worlds whose right verdict is known, written before the code that gives verdicts.

In each, domains are drawn from a law, and what differs between them is one thing: a feature whose
relation to the target varies ("spurious"), how frequent or how large the target is ("rate"), how
noisy it is ("noise"), or nothing. Some tasks are classification (y is 0 or 1), some regression.

The truth about a trained predictor is its α-quantile of risk over 100,000 new domains
(:func:`fresh_quantiles`), with as many rows each as the user's domains have. With a margin of 2%:

- *training helps* if the predictor that was trained for the level has a quantile at least 2% below
  that of every reference: the constants, ERM, and ERM recalibrated for the level;
- *recalibration is enough* if that is not so, and recalibrated ERM is at least 2% below the
  constants and ERM;
- *nothing helps* otherwise.

The laws were chosen, with the estimators of version 0.1.0, so that the truth is not close to the
margin: gains are above 4% or below 1%.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import softplus

Array = NDArray[np.float64]
ALPHA = 0.9
DOMAINS, ROWS = 300, 200
"""Of the table that a user has; half of its domains are held out."""
FRESH_DOMAINS = 100_000

Law = Callable[[np.random.Generator, int], Array]
"""The one number (m,) in which m domains differ."""
Rows = Callable[[np.random.Generator, Array], tuple[Array, Array]]
"""X (n, d) and y (n,) of rows whose domains have these numbers (n,)."""


@dataclass(frozen=True)
class World:
    """A law of domains and of their rows; ``differs`` says what varies."""

    name: str
    differs: str
    classification: bool
    law: Law
    rows: Rows

    def table(self, seed: int) -> tuple[Array, Array, NDArray[np.int64]]:
        """X, y and the domain of each row, as a user has them."""
        X, y = self._drawn(np.random.default_rng([seed, 0]), DOMAINS)
        return X, y, np.repeat(np.arange(DOMAINS), ROWS)

    def fresh(self, at_once: int = 5_000) -> Iterator[tuple[Array, Array]]:
        """Rows of 100,000 new domains, some thousand domains at a time; the same for all tables."""
        generator = np.random.default_rng([0, 1])
        for _ in range(FRESH_DOMAINS // at_once):
            yield self._drawn(generator, at_once)

    def _drawn(self, generator: np.random.Generator, domains: int) -> tuple[Array, Array]:
        return self.rows(generator, np.repeat(self.law(generator, domains), ROWS))


def fresh_quantiles(world: World, scores: Array) -> Array:
    """The α-quantile of risk of k predictors over new domains (k,).

    ``scores`` (k, d + 1) are the weights of the columns and the intercept of each predictor, whose
    score is the logit of y = 1, or the prediction.
    """
    risks = log_losses if world.classification else squared_errors
    found = np.concatenate([risks(scores, X, y) for X, y in world.fresh()], axis=1)
    return np.asarray(np.quantile(found, ALPHA, axis=1))


def log_losses(scores: Array, X: Array, y: Array) -> Array:
    """The risk of each predictor in each domain (k, m); single precision is enough for 2%."""
    wrong = np.column_stack([X, np.ones(len(y))]) * np.where(y == 1, -1.0, 1.0)[:, None]
    rows, weights = torch.from_numpy(wrong).float(), torch.from_numpy(scores).float()
    losses = [softplus(rows @ each).view(-1, ROWS).mean(dim=1) for each in weights]
    return torch.stack(losses).double().numpy()


def squared_errors(scores: Array, X: Array, y: Array) -> Array:
    """The risk of each predictor in each domain (k, m), from the moments of the domain's rows."""
    rows = np.column_stack([X, np.ones(len(y)), y]).reshape(-1, ROWS, X.shape[1] + 2)
    moments = rows.transpose(0, 2, 1) @ rows / ROWS
    errors = np.column_stack([scores, np.full(len(scores), -1.0)])
    return np.asarray([((moments @ each) * each).sum(axis=1) for each in errors])


def _sigmoid(logits: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-logits))


def _coin(generator: np.random.Generator, probability: Array) -> Array:
    return (generator.random(len(probability)) < probability).astype(float)


def _two_or(share: float, usual: float, other: float) -> Law:
    return lambda rng, m: np.where(rng.random(m) < share, other, usual)


def _normal(mean: float, deviation: float) -> Law:
    return lambda rng, m: rng.normal(mean, deviation, m)


def _uniform(low: float, high: float) -> Law:
    return lambda rng, m: rng.uniform(low, high, m)


def _lognormal(deviation: float) -> Law:
    return lambda rng, m: np.exp(rng.normal(0.0, deviation, m))


def _same(rng: np.random.Generator, m: int) -> Array:
    return np.zeros(m)


def _anticausal(stable: float, more: int = 0) -> Rows:
    """y is a fair coin; x1 follows it alike everywhere, x2 by the domain's number."""

    def rows(rng: np.random.Generator, slope: Array) -> tuple[Array, Array]:
        y = _coin(rng, np.full(len(slope), 0.5))
        noise = rng.normal(size=(len(y), 2 + more))
        noise[:, 0] += stable * (2 * y - 1)
        noise[:, 1] += slope * (2 * y - 1)
        return noise, y

    return rows


def _papers(rng: np.random.Generator, deviation: Array) -> tuple[Array, Array]:
    """X1 -> Y -> X2, where the noise of X2 differs: the paper's linear example."""
    x1 = rng.normal(size=len(deviation))
    y = x1 + np.sqrt(2.0) * rng.normal(size=len(deviation))
    return np.column_stack([x1, y + deviation * rng.normal(size=len(deviation))]), y


def _slopes(rng: np.random.Generator, slope: Array) -> tuple[Array, Array]:
    x = rng.normal(size=(len(slope), 2))
    return x, x[:, 0] + slope * x[:, 1] + 0.7 * rng.normal(size=len(slope))


def _rates(strength: float) -> Rows:
    def rows(rng: np.random.Generator, intercept: Array) -> tuple[Array, Array]:
        x = rng.normal(size=(len(intercept), 3))
        return x, _coin(rng, _sigmoid(intercept + strength * x[:, 0]))

    return rows


def _levels(rng: np.random.Generator, intercept: Array) -> tuple[Array, Array]:
    x = rng.normal(size=(len(intercept), 3))
    return x, x[:, 0] - x[:, 1] + intercept + rng.normal(size=len(intercept))


def _flips(strength: float) -> Rows:
    """The label is the other one with the domain's probability."""

    def rows(rng: np.random.Generator, flipped: Array) -> tuple[Array, Array]:
        x = rng.normal(size=(len(flipped), 3))
        y = _coin(rng, _sigmoid(strength * x[:, 0]))
        return x, np.abs(y - _coin(rng, flipped))

    return rows


def _noisy(rng: np.random.Generator, deviation: Array) -> tuple[Array, Array]:
    x = rng.normal(size=(len(deviation), 3))
    return x, x[:, 0] + 0.5 * x[:, 1] + deviation * rng.normal(size=len(deviation))


def _logit_of(strength: float, intercept: float, width: int) -> Rows:
    def rows(rng: np.random.Generator, nothing: Array) -> tuple[Array, Array]:
        x = rng.normal(size=(len(nothing), width))
        return x, _coin(rng, _sigmoid(intercept + strength * x[:, 0]))

    return rows


def _line(width: int) -> Rows:
    def rows(rng: np.random.Generator, nothing: Array) -> tuple[Array, Array]:
        x = rng.normal(size=(len(nothing), width))
        return x, x[:, 0] + rng.normal(size=len(nothing))

    return rows


WORLDS = (
    World(
        "colour reversed in a fifth", "spurious", True, _two_or(0.2, 1.0, -1.0), _anticausal(0.8)
    ),
    World(
        "colour reversed in a third", "spurious", True, _two_or(0.3, 1.5, -1.5), _anticausal(0.8)
    ),
    World("colour of any strength", "spurious", True, _normal(0.6, 0.8), _anticausal(0.8, more=2)),
    World("the paper's example", "spurious", False, _lognormal(np.sqrt(0.5)), _papers),
    World("slope reversed in a fifth", "spurious", False, _two_or(0.2, 1.0, -1.0), _slopes),
    World("rare, and rarer in some", "rate", True, _normal(-2.0, 1.0), _rates(1.0)),
    World("one in four", "rate", True, _normal(-1.2, 1.0), _rates(1.0)),
    World("outbreaks", "rate", True, _two_or(0.2, -2.5, 0.5), _rates(1.5)),
    World("levels up and down", "rate", False, _normal(0.0, 1.0), _levels),
    World("levels a little up and down", "rate", False, _normal(0.0, 0.4), _levels),
    World("labels unreliable in a fifth", "noise", True, _two_or(0.2, 0.0, 0.25), _flips(6.0)),
    World("labels unreliable to degrees", "noise", True, _uniform(0.0, 0.25), _flips(6.0)),
    World("noise of many sizes", "noise", False, _lognormal(0.5), _noisy),
    World("noise of very many sizes", "noise", False, _lognormal(1.0), _noisy),
    World("noise in a tenth", "noise", False, _two_or(0.15, 1.0, 3.0), _noisy),
    World("alike, balanced", "nothing", True, _same, _logit_of(1.0, 0.0, 3)),
    World("alike, rare", "nothing", True, _same, _logit_of(0.7, -1.0, 4)),
    World("alike, weak", "nothing", True, _same, _logit_of(0.5, 0.5, 2)),
    World("alike, numbers", "nothing", False, _same, _line(2)),
    World("alike, numbers in eight columns", "nothing", False, _same, _line(8)),
)
