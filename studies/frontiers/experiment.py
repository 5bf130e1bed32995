"""One table, one model, one split: risks of every candidate on unseen domains, kept in a file.

Parts are independent of each other, so that they can be computed in any order, by any number of
processes, on several machines; those that exist are not computed again.
"""

from __future__ import annotations

import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from eqrm import DomainKFold, Level
from eqrm.errors import DataFileError, EqrmWarning
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.selection.surrogates import CrossFitted, fitted
from eqrm.files.archive import read_archive, write_archive
from eqrm.linear.scored_rows import Correction, ScoredRows
from studies.frontiers.fitting import (
    LinearFits,
    classes_of,
    estimator_of,
    fit_candidates,
    rows_of,
)
from studies.frontiers.settings import (
    CONSTANT,
    CORRECTIONS,
    EQUAL_ODDS,
    ERM,
    ERM_SURROGATE,
    FOLDS,
    L2,
    LINEAR,
    MAIN_GOAL,
    Candidate,
    StudySettings,
)
from studies.frontiers.tables import SOURCES, StudyTable

FORMAT = "eqrm frontier part 2"
REPEATS, SHORT = 9, 1.0
"""How often, and below how many seconds, a time is measured again."""
Array = NDArray[np.float64]
Step = tuple[float, int | None, str]
"""Level, domains per step (None: all) and gradient of a fit of the gradient study."""


@dataclass(frozen=True)
class PartName:
    """Which part of the study: a table, a model, a split."""

    table: str
    model: str
    split: int

    @property
    def file(self) -> str:
        """Where it is kept."""
        return f"{self.table}.{self.model}.{self.split:03d}.safetensors"


@dataclass(frozen=True, eq=False)
class Part:
    """What was measured: risks (C, m) of the candidates, left out of the fit.

    ``unseen`` are of test domains, ``cross_fitted`` of training domains, from which a choice is
    made; ``steps`` and ``stepped`` (G, m) belong to the gradient study. ``cost`` is the time of
    ``surrogate="auto"`` over that of one path fit, where it was measured. ``chosen`` says what auto
    takes for each goal; it follows from the cross-fitted risks and is not kept.
    """

    name: PartName
    candidates: tuple[Candidate, ...]
    unseen: Array
    cross_fitted: Array
    steps: tuple[Step, ...]
    stepped: Array
    cost: float | None
    seconds: float
    chosen: dict[float, Candidate] = field(default_factory=dict)

    def risks(self, candidate: Candidate) -> Array:
        """On unseen domains (m,)."""
        found: Array = self.unseen[self.candidates.index(candidate)]
        return found

    def only(self, candidates: Sequence[Candidate]) -> Part:
        """The part without other candidates."""
        rows = [self.candidates.index(candidate) for candidate in candidates]
        return replace(
            self,
            candidates=tuple(candidates),
            unseen=self.unseen[rows],
            cross_fitted=self.cross_fitted[rows],
        )

    def save(self, folder: Path, key: str) -> None:
        """Write the file; ``key`` says of which study it is a part."""
        content = {
            "key": key,
            "candidates": [[c.method, c.setting] for c in self.candidates],
            "steps": [list(step) for step in self.steps],
            "cost": self.cost,
            "seconds": self.seconds,
        }
        risks = {"unseen": self.unseen, "cross_fitted": self.cross_fitted, "stepped": self.stepped}
        arrays = {name: values.astype(np.float32) for name, values in risks.items()}
        write_archive(folder / self.name.file, FORMAT, content, arrays)

    @classmethod
    def load(cls, name: PartName, folder: Path, key: str) -> Part | None:
        """The part, or None where it does not exist, is damaged or is of another study."""
        try:
            archive = read_archive(folder / name.file, FORMAT, "a part of the frontier study")
        except DataFileError:
            return None
        content, arrays = archive.content, archive.tensors
        if content["key"] != key:
            return None
        return cls(
            name,
            tuple(Candidate(method, setting) for method, setting in content["candidates"]),
            arrays["unseen"].astype(np.float64),
            arrays["cross_fitted"].astype(np.float64),
            tuple((level, size, gradient) for level, size, gradient in content["steps"]),
            arrays["stepped"].astype(np.float64),
            content["cost"],
            content["seconds"],
        )


def study_key(table: StudyTable, settings: StudySettings, seed: int) -> str:
    """What a part depends on, besides its name; the number of splits is not among it."""
    about = {**asdict(settings), "splits": 0, "l2": L2, "seed": seed, "table": table.digest()}
    del about["fresh_splits"]
    if settings.rivals:  # parts had no such setting at first
        del about["rivals"]
    return json.dumps(about, sort_keys=True)


def measure_part(name: PartName, table: StudyTable, settings: StudySettings, seed: int) -> Part:
    """Fit everything to one half of the domains, and measure it on the other."""
    start = time.process_time()
    train, test = table.halves(name.split, seed)
    train &= table.some(settings.most_examples(name.model), seed)
    rows, unseen = (
        rows_of(table.X[half], table.y[half], table.ids[half], table.classes)
        for half in (train, test)
    )
    trained = settings.trained(name.model)
    scores, folds = _cross_fitted(name.model, trained, rows, settings)
    linear = LinearFits.of(rows) if name.model == LINEAR else None
    if linear is None:
        predictors = fit_candidates(name.model, trained, rows, settings)
    else:
        predictors = linear.fit(trained, settings)
    found = _Measured(rows, unseen)
    for place, candidate in enumerate(trained):
        found.add(candidate, scores[place], predictors[place](unseen.X))
    erm = predictors[trained.index(Candidate(ERM))](unseen.X)
    _add_references(found, scores, folds, erm, settings)
    steps, stepped = _gradient_study(found, linear, settings)
    cost = _cost_of_auto(name.model, rows, settings) if name.split == 0 else None
    return Part(
        name,
        tuple(found.candidates),
        np.stack(found.unseen_risks),
        np.stack(found.cross_fitted),
        steps,
        stepped,
        cost,
        time.process_time() - start,
    )


class _Measured:
    """Candidates with their risks, one after the other."""

    def __init__(self, rows: TrainingRows, unseen: TrainingRows) -> None:
        self.rows, self.unseen, self.classes = rows, unseen, classes_of(rows)
        self.candidates: list[Candidate] = []
        self.cross_fitted: list[Array] = []
        self.unseen_risks: list[Array] = []

    def risks_of(self, scores: Array, rows: TrainingRows) -> Array:
        """The risk of each domain (m,)."""
        scored = ScoredRows.of(scores, rows.y, self.classes, rows.groups.ids)
        return scored.risks(Correction())

    def add(self, candidate: Candidate, scores: Array, unseen: Array) -> None:
        """By scores of the training rows from fits without their domain, and of unseen rows."""
        self.keep(candidate, self.risks_of(scores, self.rows), self.risks_of(unseen, self.unseen))

    def keep(self, candidate: Candidate, cross_fitted: Array, unseen: Array) -> None:
        """By risks."""
        self.candidates.append(candidate)
        self.cross_fitted.append(cross_fitted)
        self.unseen_risks.append(unseen)


def _cross_fitted(
    model: str, candidates: Sequence[Candidate], rows: TrainingRows, settings: StudySettings
) -> tuple[Array, NDArray[np.int64]]:
    """Scores (C, n) by predictors that have not seen a row's domain, and the fold of each row.

    The folds are those of ``surrogate="auto"``.
    """
    scores = np.empty((len(candidates), len(rows.y)))
    folds = np.empty(len(rows.y), dtype=np.int64)
    splitter = DomainKFold(FOLDS, random_state=0)
    for fold, (train, test) in enumerate(splitter.split(rows.y, groups=rows.groups.ids)):
        folds[test] = fold
        kept = np.zeros(len(rows.y), dtype=bool)
        kept[train] = True
        for place, predict in enumerate(
            fit_candidates(model, candidates, rows.only(kept), settings)
        ):
            scores[place, test] = predict(rows.X[test])
    return scores, folds


def _add_references(
    found: _Measured,
    scores: Array,
    folds: NDArray[np.int64],
    erm_scores: Array,
    settings: StudySettings,
) -> None:
    """Add ERM recalibrated for each goal, and constants."""
    rows, unseen = found.rows, found.unseen
    own = scores[found.candidates.index(Candidate(ERM))]
    crossed = CrossFitted((ERM_SURROGATE,), (own,), rows.y, found.classes, rows.groups, folds)
    erm = ScoredRows.of(erm_scores, unseen.y, found.classes, unseen.groups.ids)
    for goal in settings.goals:
        for surrogate in CORRECTIONS:
            correction = crossed.correction(surrogate, Level(goal))
            left_out = crossed.risks(surrogate, Level(goal))
            found.keep(Candidate.of(surrogate, goal), left_out, erm.risks(correction))
    for candidate, score in _constants(rows.y, found.classes).items():
        found.add(candidate, np.full(len(rows.y), score), np.full(len(unseen.y), score))


def _constants(y: NDArray[Any], classes: int) -> dict[Candidate, float]:
    """The score of the base rate and of equal odds, or of the mean; every row counts once."""
    mean = float(y.mean())
    if not classes:
        return {Candidate(CONSTANT): mean}
    return {Candidate(CONSTANT): float(np.log(mean / (1.0 - mean))), Candidate(EQUAL_ODDS): 0.0}


def _gradient_study(
    measured: _Measured, fits: LinearFits | None, settings: StudySettings
) -> tuple[tuple[Step, ...], Array]:
    """Risks (G, m) on unseen domains after training by the exact and the published gradient."""
    unseen = measured.unseen
    if fits is None or not settings.rivals:
        return (), np.empty((0, len(unseen.groups)))
    steps: list[Step] = []
    risks = []
    for level in settings.step_levels:
        for size in settings.step_sizes:
            for gradient in ("implicit", "bisection"):
                theta = fits.descend(Level(level), gradient, size, settings)
                steps.append((level, size, gradient))
                risks.append(measured.risks_of(fits.predictor(theta)(unseen.X), unseen))
    return tuple(steps), np.stack(risks)


def _cost_of_auto(model: str, rows: TrainingRows, settings: StudySettings) -> float:
    """The processor time of ``surrogate="auto"`` over that of its candidates, fitted once.

    Short times are measured nine times by turns and added up: what else the machine does slows
    both alike.
    """
    estimator = estimator_of(model, classes_of(rows), settings)
    path = (ERM_SURROGATE, *settings.surrogates(MAIN_GOAL, model))
    chosen = clone(estimator).set_params(alpha=MAIN_GOAL, surrogate="auto")
    times: list[tuple[float, float]] = []
    while not times or (len(times) < REPEATS and times[0][0] < SHORT):
        start = time.process_time()
        fitted(estimator, path, rows.X, rows.y, rows.groups.ids, None)
        middle = time.process_time()
        clone(chosen).fit(rows.X, rows.y, groups=rows.groups.ids)
        times.append((middle - start, time.process_time() - middle))
    once, auto = np.sum(times, axis=0).tolist()
    return float(auto / once)


@dataclass(frozen=True)
class Job:
    """A part that is to be computed, ready to be sent to another process."""

    name: PartName
    folder: Path
    settings: StudySettings
    seed: int

    def run(self) -> PartName:
        """Compute and save."""
        table = SOURCES[self.name.table].load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EqrmWarning)  # of levels that a quantile is low at
            part = measure_part(self.name, table, self.settings, self.seed)
        part.save(self.folder, study_key(table, self.settings, self.seed))
        return self.name


def run_jobs(jobs: Sequence[Job], workers: int, progress: Callable[[int, PartName], None]) -> None:
    """Compute parts, each in one thread; what has been saved stays if this is interrupted."""
    for number, name in enumerate(_finished(jobs, workers), 1):
        progress(number, name)


def _finished(jobs: Sequence[Job], workers: int) -> Iterator[PartName]:
    if workers == 1:
        yield from (job.run() for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _use_one_thread) as pool:
        try:
            waiting = [pool.submit(Job.run, job) for job in jobs]
            for done in as_completed(waiting):
                yield done.result()
        except BaseException:  # parts that have not begun are left for the next run
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _use_one_thread() -> None:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)
