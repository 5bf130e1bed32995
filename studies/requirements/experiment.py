"""Models fitted to training domains, controlled on others, and judged on new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import eqrm
from eqrm.errors import DomainDataError
from studies.requirements import settings as asked
from studies.requirements.conformal import FORMULA, WAYS, installed
from studies.requirements.splits import Array, Rows, Split

Numbers = tuple[float, float, float, float]
"""What is kept, and shares: of domains that meet the requirement, rows covered, domains excused."""


@dataclass(frozen=True)
class Judged:
    """A model at a requirement, judged on the new domains of one split.

    ``kept`` is the mean over new domains of the share answered, the classes per set or the width;
    ``met`` the share of new domains that meet the requirement; ``covered`` the share of all rows
    that are covered (NaN where none have to be). ``excused`` is the share of new domains that meet
    "wrong among answered" only because they answer fewer than 20 rows. ``how`` is "" for an
    operating point, else what made the sets of pooled rows, and ``apart`` the largest difference of
    these numbers between packages and formula.
    """

    source: str
    split: int
    require: str
    model: str
    kept: float
    met: float
    covered: float = np.nan
    excused: float = 0.0
    how: str = ""
    apart: float = 0.0


def models_of(numbers: bool) -> dict[str, Any]:
    """Estimators that are not fitted."""
    linear: Any = eqrm.QRMRegressor if numbers else eqrm.QRMClassifier
    trees: Any = eqrm.LGBMQRMRegressor if numbers else eqrm.LGBMQRMClassifier
    return {
        asked.ERM: linear(alpha=None),
        asked.RECALIBRATED: eqrm.Recalibrated(linear(alpha=None), alpha=asked.ALPHA),
        asked.EQRM: linear(alpha=asked.ALPHA),
        asked.SUPERQUANTILE: linear(alpha=0.75, measure="superquantile"),
        asked.TREES: trees(alpha=None, n_estimators=asked.ROUNDS, n_jobs=1, random_state=0),
    }


def judged(source: str, number: int, split: Split) -> Iterator[Judged]:
    """Every model at every requirement, and beside it the sets of pooled rows."""
    train, rows, fitted = split.train, split.calibration, models_of(split.numbers)
    known, new = {}, {}
    for name, model in fitted.items():
        model.fit(train.X, train.y, groups=train.ids)
        predict = model.predict if split.numbers else model.predict_proba
        known[name], new[name] = predict(rows.X), predict(split.test.X)
    given = {**{name: {name: known[name]} for name in known}, asked.CHOSEN: known}
    wrong = asked.OF_WORLDS if source in asked.WORLDS else asked.OF_CLASSES
    for require in (*(() if split.numbers else wrong), asked.COVERAGE):
        for name, own in given.items():
            point, found = _point(own, rows, require), (np.nan, 0.0, np.nan, 0.0)
            if point is not None:
                found = judge(point.apply(new[point.model]), split.test, require)
            yield Judged(source, number, require, name, *found)
    for name in (asked.ERM, asked.TREES):
        yield _of_pooled_rows(source, number, name, fitted[name], split)


def _point(
    given: Mapping[str, Array], rows: Rows, require: str
) -> eqrm.evaluation.OperatingPoint | None:
    """The operating point; None where the requirement can be promised at no setting."""
    given, level, sure = dict(given), asked.ALPHA, asked.CONFIDENCE
    try:
        return eqrm.control(rows.y, given, rows.ids, require=require, alpha=level, confidence=sure)
    except DomainDataError:
        return None


def judge(decisions: Mapping[str, Any], rows: Rows, require: str) -> Numbers:
    """Decisions for rows, judged without the package: rows are counted again."""
    if "set" in decisions:
        sets = decisions["set"]
        return covering(np.array([[k in own for k in (0, 1)] for own in sets], float), rows, False)
    if "lower" in decisions:
        return covering(np.column_stack([decisions["lower"], decisions["upper"]]), rows, True)
    limit = float(require.split("<=")[1].rstrip("% ")) / 100.0
    answered = ~decisions["passed"]
    wrong = rows.totals(answered & (decisions["answer"] != rows.y))
    answers, sizes = rows.totals(answered), rows.totals(np.ones(len(rows.y)))
    among = require.startswith("wrong among")
    met = wrong <= limit * (answers if among else sizes) + 1e-9
    excused = ~met & (answers < asked.LEAST_ANSWERED) & among
    kept = float((answers / sizes).mean())
    return kept, float((met | excused).mean()), np.nan, float(excused.mean())


def covering(given: Array, rows: Rows, numbers: bool) -> Numbers:
    """The same of ends of intervals (n, 2), or of which classes are in sets (n, K)."""
    if numbers:
        covered = (given[:, 0] <= rows.y) & (rows.y <= given[:, 1])
        size = given[:, 1] - given[:, 0]
    else:
        covered, size = given[np.arange(len(given)), rows.y] > 0.0, given.sum(axis=1)
    sizes = rows.totals(np.ones(len(rows.y)))
    met = rows.totals(covered) >= 0.9 * sizes - 1e-9
    return float((rows.totals(size) / sizes).mean()), float(met.mean()), float(covered.mean()), 0.0


def _of_pooled_rows(source: str, number: int, name: str, model: Any, split: Split) -> Judged:
    """Sets by the packages that are there, beside the formula.

    crepes goes through the rows one by one, so that it is used on the first split alone.
    """
    names = [each for each in installed() if number == 0 or each != "crepes"]
    made = {way: WAYS[way](model, split) for way in (*names, FORMULA)}
    found = [covering(each, split.test, split.numbers) for each in made.values()]
    apart = max(float(np.abs(np.subtract(each, found[-1])).max()) for each in found)
    how = " and ".join(names) or FORMULA
    return Judged(source, number, asked.COVERAGE, name, *found[0], how=how, apart=apart)
