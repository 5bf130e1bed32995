"""What a decision must achieve in a domain, and the setting from which it does.

A decision has one setting λ, the larger the more cautious, and a score per row: the row counts
against the requirement while its score is above λ. A domain needs the smallest λ from which on its
requirement is met, λ*: of n rows that are counted, a share r of which may be lost, that is the
(⌊r·n⌋ + 1)-th largest score. A new domain meets the requirement at λ exactly if its λ* is at most
λ, so bounds on the quantile of λ* over domains are operating points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from eqrm.checks import is_number, one_of
from eqrm.errors import SettingError
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.evaluation.rounding import as_percent, rounded_up

Array = NDArray[np.float64]
WRONG, AMONG, COVERAGE = "wrong", "wrong among answered", "coverage"
MISSED, ALARMS, LOSS = "missed", "false alarms", "loss"
LAC, APS = "lac", "aps"
SETS = (LAC, APS)
INTERVALS = "intervals"
EXAMPLES = (
    *("wrong <= 5%", "wrong among answered <= 5%", "coverage >= 90%"),
    *("missed <= 10%", "false alarms <= 5%", "loss <= 0.4"),
)
NAMES = (WRONG, AMONG, COVERAGE, MISSED, ALARMS, LOSS)
LEAST_ANSWERED = 20
"""Of fewer answered rows the share that is wrong is not asked for."""
NEVER = 1e150
"""The setting of intervals that no domain reaches; its square is still a number."""
SLACK = 1e-9
"""On limit × rows, so that 0.29 × 100 allows 29."""
ROUNDING = 1e-6
"""How much more cautious than its bound a setting is: predictions may be rounded on their way."""
POSITIVE = {"1": ("0", "-1"), "true": ("false",), "yes": ("no",), "y": ("n",)}
POSITIVE |= {"positive": ("negative",)}
"""Classes that are positive, and what the other one is then called."""
_FORM = re.compile(
    r"\s*([a-z ]+?)\s*(<=|>=|≤|≥)\s*(-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)\s*(%?)\s*"
    r"(?:\((lac|aps|intervals)\))?\s*"
)


@dataclass(frozen=True)
class Kind:
    """How a requirement counts rows, and what its setting leaves to the user.

    ``scores`` gives the score of each row, −∞ where it cannot be lost, and which rows are counted
    (None: all). ``kept`` gives a number per row at a setting, NaN where there is none, of which the
    mean over a domain's rows is what is kept; ``more`` says whether more is better.
    ``lowest`` is a setting at which nothing is given up, ``highest`` one at which nothing is lost.
    """

    scores: Callable[[Array, Array], tuple[Array, Array | None]]
    kept: Callable[[Array, Array, float], Array]
    keeps: str
    more: bool
    lowest: float
    highest: float
    lost: str
    """What completes "at most 5% of": what may be lost."""
    rule: str
    """What to do, with the number that decides."""


@dataclass(frozen=True)
class Requirement:
    """What must hold in a domain: ``kind`` and the ``limit``, as "wrong <= 5%" says it.

    ``score`` says how sets or intervals are made: "lac", "aps" or "intervals"; it is empty for
    other kinds.
    """

    kind: str
    limit: float
    score: str = ""

    def __post_init__(self) -> None:
        one_of(self.kind, NAMES, "requirement")
        inside = self.kind == LOSS or 0.0 < self.limit < 1.0
        if not (is_number(self.limit) and inside):
            percent = f" Did you mean {self.limit:g}%?" if 1.0 <= self.limit < 100.0 else ""
            raise SettingError(
                f"The limit of {self.kind!r} must be a share strictly between 0% and 100%, got "
                f"{self.limit!r}.{percent}"
            )
        if self.kind == COVERAGE:
            one_of(self.score, (*SETS, INTERVALS), "score")

    @classmethod
    def of(cls, text: Any, score: str = "") -> Requirement:
        """From a text such as "wrong <= 5%", or what :attr:`text` made."""
        if isinstance(text, Requirement):
            return text
        found = _FORM.fullmatch(text.lower()) if isinstance(text, str) else None
        if found is None:
            raise SettingError(
                f"A requirement must be of the form {', '.join(map(repr, EXAMPLES))}, got {text!r}."
            )
        kind, sign, number, percent, way = found.groups()
        right = ">=" if one_of(kind, NAMES, "requirement") == COVERAGE else "<="
        if sign not in (right, {">=": "≥", "<=": "≤"}[right]):
            raise SettingError(f"Write {kind!r} with {right}: '{kind} {right} {number}{percent}'.")
        limit = float(number) / (100.0 if percent else 1.0)
        return cls(kind, limit, (way or score) if kind == COVERAGE else "")

    @classmethod
    def among(cls, metric: Any) -> Requirement | None:
        """The requirement that was given as a metric, if it is one."""
        if isinstance(metric, Requirement):
            return metric
        typed = isinstance(metric, str) and any(sign in metric for sign in "<>≤≥")
        return cls.of(metric) if typed else None

    @property
    def text(self) -> str:
        """As it may be typed, with all that :meth:`of` needs."""
        sign = ">=" if self.kind == COVERAGE else "<="
        share = as_percent(self.limit)
        exact = self.kind != LOSS and Requirement.of(f"{WRONG} <= {share}").limit == self.limit
        limit = share if exact else repr(float(self.limit))
        return f"{self.kind} {sign} {limit}" + f" ({self.score})" * bool(self.score)

    @property
    def allowed(self) -> float:
        """The share of rows that may be lost."""
        return 1.0 - self.limit if self.kind == COVERAGE else self.limit

    @property
    def how(self) -> Kind:
        """How rows are counted."""
        return KINDS[self.score or self.kind]

    @property
    def numbers(self) -> bool:
        """Whether it is about intervals of numbers, not about classes."""
        return self.score == INTERVALS

    @property
    def sentence(self) -> str:
        """What is required, as a clause."""
        if self.kind == LOSS:
            return f"a mean loss of at most {self.limit:.12g}"
        ending = f" (of at least {LEAST_ANSWERED} answers; fewer meet it)"
        share = as_percent(round(self.allowed, 12))
        return f"at most {share} of {self.how.lost}{ending * (self.kind == AMONG)}"

    def refuse_other_task(self, classes: Sequence[Any]) -> None:
        """Raise where predictions are of another kind; there are no ``classes`` of numbers."""
        number, two = len(classes), self.kind in (MISSED, ALARMS)
        if self.kind == LOSS or self.numbers != (number == 0) or (two and number > 2):
            kind = f"{number} classes" if number else "numbers"
            raise SettingError(
                f"{self.text!r} does not apply to predictions of {kind}. For numbers require "
                "'coverage >= 90%'; for classes the same of sets, or 'wrong <= 5%'; 'missed' and "
                "'false alarms' are for two classes."
            )
        first, last = (str(each).lower().removesuffix(".0") for each in classes[:2] or ("", ""))
        if two and first not in POSITIVE.get(last, ()):
            raise SettingError(
                f"{self.kind!r} is about positives, and which of the classes {classes[0]!r} and "
                f"{classes[1]!r} is the positive one is not known. Code the target as 0 and 1, or "
                "as no and yes."
            )

    def needed(
        self, rows: RowsOfPredictions, domains: int, limits: Sequence[float], miss: float = 0.0
    ) -> Array:
        """λ* of each domain for several shares allowed (L, m); −∞ for domains without a row.

        Every domain has all its rows here, or none. With a ``miss`` above 0, the *true* share of
        the domain is above the limit at λ* with at most this probability.
        """
        number = 2 if rows.prediction.ndim == 1 else rows.prediction.shape[1]
        self.refuse_other_task(() if self.numbers else range(number))
        if self.kind == AMONG:
            return self._needed_among(rows, domains, limits)
        scores, among = self.how.scores(rows.label, rows.prediction)
        held = rows.domain if among is None else rows.domain[among > 0.0]
        sizes = np.bincount(held, minlength=domains)
        able = np.flatnonzero(scores > -np.inf)
        ids, ranked = _ranked(rows.domain[able], scores[able], domains)
        losable = np.bincount(ids, minlength=domains)
        starts = np.cumsum(losable) - losable
        found = np.empty((len(limits), domains))
        for row, limit in enumerate(limits):
            most = np.floor(limit * sizes + SLACK) if miss == 0.0 else _most(sizes, limit, miss)
            places = (starts + most).astype(np.int64).clip(0, max(len(ranked) - 1, 0))
            chosen = ranked[places] if len(ranked) else np.zeros(domains)
            found[row] = np.where(most < losable, chosen, self.how.lowest)
            found[row, most < 0.0] = self.how.highest
        found[:, np.bincount(rows.domain, minlength=domains) == 0] = -np.inf
        return found

    def _needed_among(
        self, rows: RowsOfPredictions, domains: int, limits: Sequence[float]
    ) -> Array:
        """The largest confidence down to which too many of the answers are wrong."""
        confidence, wrong = _confidence(rows.label, rows.prediction)
        order = _order(rows.domain, confidence, domains)
        ids, ranked = rows.domain[order], confidence[order]
        sizes = np.bincount(ids, minlength=domains)
        starts = (np.cumsum(sizes) - sizes)[ids]
        errors = np.cumsum(wrong[order])
        errors = errors - np.append(0, errors)[starts]
        answered = np.arange(1, len(ids) + 1) - starts
        last = np.append((ranked[1:] != ranked[:-1]) | (ids[1:] != ids[:-1]), True)
        asked = last & (answered >= LEAST_ANSWERED)
        found = np.zeros((len(limits), domains))
        for row, limit in enumerate(limits):
            broken = np.flatnonzero(asked & (errors > limit * answered + SLACK))[::-1]
            found[row, ids[broken]] = ranked[broken]  # of a domain the first one is written last
        found[:, sizes == 0] = -np.inf
        return found

    def kept(self, rows: RowsOfPredictions, domains: int, setting: float) -> Array:
        """What is kept in each domain (m,): a mean over its rows, the median width of intervals."""
        held = np.bincount(rows.domain, minlength=domains)
        found = self.how.kept(rows.label, rows.prediction, setting)
        if self.numbers:
            _, ranked = _ranked(rows.domain, found, domains)
            last = np.cumsum(held) - 1
            ends = last - held // 2, last - np.maximum(held - 1, 0) // 2
            low, high = (ranked[each.clip(0, len(ranked) - 1)] for each in ends)
            return np.where(held > 0, 0.5 * (low + high), np.nan)
        known = ~np.isnan(found)
        if not known.all():
            held = np.bincount(rows.domain[known], minlength=domains)
        sums = np.bincount(rows.domain[known], found[known], domains)
        return np.where(held > 0, sums / np.maximum(held, 1), np.nan)

    def decided(
        self, predictions: Array, setting: float, names: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """Decisions about rows, from probabilities of classes that have ``names`` (K,)."""
        if self.kind in (WRONG, AMONG):
            confidence, guess = confidence_and_class(predictions)
            answer, passed = names[guess], confidence <= setting
            answer[passed] = None
            return {"answer": answer, "passed": passed}
        if self.score:
            inside = set_scores(predictions, self.score) <= setting
            found = np.empty(len(inside), dtype=object)
            found[:] = [tuple(names[row].tolist()) for row in inside]
            return {"set": found}
        score = _of_second(predictions)
        return {"positive": score >= -setting if self.kind == MISSED else score > setting}

    def above(self, bound: float) -> float:
        """The setting for a bound: a little more cautious, so that rounding changes no decision."""
        kept = self.numbers or self.kind == LOSS or bound <= self.how.lowest
        return bound if kept else bound + ROUNDING

    def shown(self, setting: float) -> str:
        """A setting as the number that decisions are made with."""
        if self.score == LAC or self.kind == MISSED:  # never more than the number itself
            return rounded_up(setting).removeprefix("-")
        return f"{setting:.12g}" if self.kind == LOSS else rounded_up(setting)

    def kept_shown(self, kept: float) -> str:
        """What is kept: a share in percent, classes per set or a width."""
        if np.isnan(kept):
            return "-"
        return f"{kept:.3g}" if self.score or self.kind == LOSS else f"{100.0 * kept:.1f}%"

    def in_words(self, setting: float) -> str:
        """What to do at a setting."""
        return self.how.rule.format(self.shown(setting))


def _most(sizes: NDArray[Any], limit: float, miss: float) -> Array:
    """How many of n rows may be lost where their true share is above the limit with P ≤ miss.

    The largest k with P(Binomial(n, limit) ≤ k) ≤ miss; −1 where there is none, as of no rows.
    """
    low, high = np.full(len(sizes), -1.0), np.maximum(sizes, 1).astype(np.float64)
    n = high
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high)).clip(0.0)
        rare = betainc(n - middle, middle + 1.0, 1.0 - limit) <= miss
        low, high = np.where(rare, middle, low), np.where(rare, high, middle)
    return np.asarray(np.where(sizes > 0, low, -1.0))


def _order(ids: NDArray[np.int32], values: Array, domains: int) -> NDArray[np.int64]:
    """By domain, and in each from the largest value down."""
    order = np.argsort(-values)
    short = ids.astype(np.uint16) if domains <= 2**16 else ids  # which is sorted in linear time
    found: NDArray[np.int64] = order[np.argsort(short[order], kind="stable")]
    return found


def _ranked(ids: NDArray[np.int32], values: Array, domains: int) -> tuple[NDArray[np.int32], Array]:
    order = _order(ids, values, domains)
    return ids[order], values[order]


def _of_second(predictions: Array) -> Array:
    """The probability of the second of two classes; of more classes all."""
    two = predictions.ndim == 2 and predictions.shape[1] == 2
    return predictions[:, 1] if two else predictions


def confidence_and_class(predictions: Array) -> tuple[Array, NDArray[np.int64]]:
    """The largest probability of each row, and its class."""
    second = _of_second(predictions)
    if second.ndim == 1:
        return np.maximum(second, 1.0 - second), (second >= 0.5).astype(np.int64)
    return predictions.max(axis=1), predictions.argmax(axis=1)


def _confidence(labels: Array, predictions: Array) -> tuple[Array, NDArray[np.bool_]]:
    confidence, guess = confidence_and_class(predictions)
    return confidence, guess != labels


def _wrong(labels: Array, predictions: Array) -> tuple[Array, None]:
    confidence, wrong = _confidence(labels, predictions)
    return np.where(wrong, confidence, -np.inf), None


def set_scores(predictions: Array, score: str) -> Array:
    """The score of each class (n, K): those up to the setting are in the set."""
    given = _of_second(predictions)
    given = given if given.ndim == 2 else np.column_stack([1.0 - given, given])
    if score == LAC:
        return -given
    order = np.argsort(-given, axis=1, kind="stable")
    total = np.cumsum(np.take_along_axis(given, order, axis=1), axis=1)
    found = np.empty_like(total)
    np.put_along_axis(found, order, total, axis=1)
    return found


def _of_sets(score: str, lowest: float, highest: float, rule: str) -> Kind:
    def scores(labels: Array, predictions: Array) -> tuple[Array, None]:
        every = set_scores(predictions, score)
        return every[np.arange(len(labels)), labels.astype(np.int64)], None

    def size(labels: Array, predictions: Array, setting: float) -> Array:
        return as_numbers((set_scores(predictions, score) <= setting).sum(axis=1))

    lost = "the rows with a class outside their set"
    return Kind(scores, size, "classes per set", False, lowest, highest, lost, rule)


KINDS = {
    kind: Kind(
        *(_wrong, lambda y, p, at: as_numbers(confidence_and_class(p)[0] > at), "answered", True),
        *(0.0, 1.0, lost, "answer where the confidence is above {}, and pass the others on"),
    )
    for kind, lost in ((WRONG, "all rows answered wrongly"), (AMONG, "the answered rows wrong"))
} | {
    LAC: _of_sets(LAC, -1.0, 0.0, "keep every class with a probability of at least {}"),
    APS: _of_sets(APS, 0.0, 2.0, "keep the likeliest classes, up to a total probability of {}"),
    INTERVALS: Kind(  # the label is how far outside the number is; the width and the unit follow
        lambda away, _: (away, None),
        lambda _, row, at: np.maximum(row[:, 0] + 2.0 * at * row[:, 1], 0.0),
        *("width", False, -NEVER, NEVER, "the rows outside their interval"),
        "make intervals wider by {} units on each side",
    ),
    MISSED: Kind(
        lambda y, p: (np.where(y == 1.0, -_of_second(p), -np.inf), y),
        lambda _, p, at: as_numbers(_of_second(p) >= -at),
        *("called positive", False, -1.0, 0.0, "the positives missed"),
        "call rows positive from a probability of {}",
    ),
    ALARMS: Kind(
        lambda y, p: (np.where(y == 0.0, _of_second(p), -np.inf), 1.0 - y),
        lambda y, p, at: np.where(y == 1.0, _of_second(p) > at, np.nan),
        *("positives found", True, 0.0, 1.0, "the negatives called positive"),
        "call rows positive above a probability of {}",
    ),
    LOSS: Kind(  # of means on a grid of settings, which has no rows
        *(_wrong, lambda y, p, at: y, "setting", False, -NEVER, NEVER, "", "use the setting {}"),
    ),
}
"""By the score of sets and intervals, else by the kind of the requirement."""
