"""Points of models that were fitted to the same domains: ``eqrm train --require``, and ``cv=``.

Their guarantee is not proven: a model is judged on domains that it has not seen, but then fitted
to all of them, and it was chosen by what it keeps there. Here it is counted.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import eqrm
from eqrm.estimators import control_model
from eqrm.evaluation.measuring.requirement import Requirement
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from studies.control_coverage.settings import ALPHA, AMONG, ControlSettings
from studies.domains_in_time.worlds import Generator, Vector
from studies.outcome import Progress

TRAINED, CV = "eqrm train --require", "control_model(cv=10)"
DOMAINS, ROWS, NEW = 46, 100, 400
"""Of 46 domains the order statistic holds with 95.1%: there is no margin to hide in."""
LIMITS = ("wrong <= 10%", AMONG.replace("5%", "20%"))
KINDS = ("reversed slopes", "random slopes", "shifted base rates", "hardly different")


@dataclass(frozen=True)
class HeldByTraining:
    """In which share of ``worlds`` enough new domains met the requirement, and the mean share."""

    by: str
    kind: str
    require: str
    worlds: int
    wanted: float
    success: float
    mean: float
    kept: float

    def __str__(self) -> str:
        return f"{self.by}, {self.kind}, '{self.require}'"


def world(
    kind: str, generator: Generator, domains: int
) -> tuple[NDArray[np.int64], Vector, Vector]:
    """The domain, the three features and the label of each row."""
    ids = np.repeat(np.arange(domains), ROWS)
    X = generator.normal(size=(len(ids), 3))
    if kind == "reversed slopes":
        own = np.where(generator.random(domains) < 0.15, -1.5, 1.5)
        score = 3.0 * X[:, 0] + own[ids] * X[:, 1]
    elif kind == "random slopes":
        score = (X * generator.normal(1.0, 1.0, (domains, 3))[ids]).sum(axis=1)
    else:
        slope, spread = (1.5, 1.5) if kind == "shifted base rates" else (0.5, 0.3)
        score = slope * X[:, 0] + generator.normal(0.0, spread, domains)[ids]
    return ids, X, (generator.random(len(ids)) < expit(score)).astype(np.int64)


def judged_world(by: str, kind: str, require: str, key: list[int]) -> tuple[float, float]:
    """Fit and control in one world: the share of new domains that meet it, and what is kept."""
    generator = np.random.default_rng(key)
    ids, X, y = world(kind, generator, DOMAINS)
    new_ids, new, truth = world(kind, generator, NEW)
    if by == CV:
        model = LogisticRegression(C=1e3)
        point = control_model(model, X, y, ids, require=require, cv=10)
        predictions = model.fit(X, y).predict_proba(new)[:, 1]
    else:
        table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": y, "domain": ids}
        trained = eqrm.train(table, "label", "domain", model="linear", require=require)
        predictions = trained.predict({"a": new[:, 0], "b": new[:, 1], "c": new[:, 2]})["p_1"]
        if trained.point is None:
            raise ValueError("46 domains are enough for a point")
        point = trained.point
    rows = RowsOfPredictions(new_ids.astype(np.int32), truth.astype(float), np.asarray(predictions))
    how = Requirement.of(require)
    (needed,) = how.needed(rows, NEW, [how.allowed])
    return float((needed <= point.setting).mean()), point.kept


def trainings(settings: ControlSettings, seed: int, progress: Progress) -> list[HeldByTraining]:
    """Every way, kind and requirement, in so many worlds each."""
    cells = [(by, kind, LIMITS[0]) for by in (TRAINED, CV) for kind in KINDS]
    cells += [(by, KINDS[0], LIMITS[1]) for by in (TRAINED, CV)]
    found = []
    for number, (by, kind, require) in enumerate(cells):
        progress(number / len(cells), f"{by}, {kind}")
        keys = [[seed, number, world] for world in range(settings.trainings)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares, kept = np.transpose([judged_world(by, kind, require, key) for key in keys])
        success, wanted = float((shares >= ALPHA).mean()), settings.wanted(settings.trainings)
        mean = float(shares.mean()), float(kept.mean())
        found.append(HeldByTraining(by, kind, require, len(keys), wanted, success, *mean))
    return found
