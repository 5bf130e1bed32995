"""What every evaluated model is compared with: constants, and its own recalibration.

Both are cross-fitted over domains: the risk of a domain comes from a constant, or a correction of
the scores, that was computed on other domains. Neither needs a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import Name, places_among
from eqrm.errors import Setting
from eqrm.evaluation.measuring.measured import (
    LabelStatistics,
    Measured,
    Skill,
    skill_of_classes,
    skill_of_numbers,
)
from eqrm.evaluation.measuring.measurement_spec import MOST_ROWS, MeasurementSpec
from eqrm.evaluation.measuring.metrics import DECLARED, Metric, class_losses
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.level import Level
from eqrm.linear.recalibration import cross_recalibrated
from eqrm.linear.scored_rows import CLIP, ScoredRows, logits_of, probabilities_of
from eqrm.risks import MeasuredRisks, domain_risks

Array = NDArray[np.float64]
BASE_RATE, MEAN = "base rate", "mean"
GUESSES = ("50/50 guess", "even guess")
"""The same probability for every class: of two, and of more."""
HALF_A_ROW = 0.5
"""What a class without rows counts, so that its probability is not 0."""


def guess_name(classes: int) -> str:
    """What guessing among the classes is called."""
    return GUESSES[classes > 2]


FOLDS = 5
FEWEST_DOMAINS = 10
"""With fewer, folds of domains are too few to fit a correction for a quantile."""


@dataclass(frozen=True, eq=False)
class References:
    """Risks of references on the evaluated domains, by name, and the skill of all models.

    ``level`` is what scores were recalibrated for; ``recalibrates`` says which reference is the
    recalibration of which model, the others are constants. ``notes`` say what is missing.
    """

    level: Level
    risks: Mapping[str, MeasuredRisks] = field(default_factory=dict)
    recalibrates: Mapping[str, str] = field(default_factory=dict)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "log_tail": self.level.log_tail,
            "risks": {name: risks.to_dict() for name, risks in self.risks.items()},
            "recalibrates": dict(self.recalibrates),
            "skills": {name: skill.to_dict() for name, skill in self.skills.items()},
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> References:
        return cls(
            Level(log_tail=float(content["log_tail"])),
            {name: MeasuredRisks.from_dict(c) for name, c in content["risks"].items()},
            dict(content["recalibrates"]),
            {name: Skill.from_dict(c) for name, c in content["skills"].items()},
            tuple(content["notes"]),
        )


def references_of(
    measured: Mapping[str, Measured], domains: Sequence[Name], spec: MeasurementSpec, level: Level
) -> References:
    """The references of models on these domains, or a note that says why there are none."""
    first, metric = next(iter(measured.values())), spec.known_metric
    if metric is None or first.labels is None:
        return References(level, notes=(_why_none(spec),))
    risks: dict[str, MeasuredRisks] = {}
    skills: dict[str, Skill] = {}
    notes: dict[str, None] = {}
    recalibrates: dict[str, str] = {}
    labels = first.labels.only(domains)
    for name, constant in cross_fitted_constants(labels, metric, first.several).items():
        called = _unused(f"constant ({name})", measured)
        risks[called], skills[called] = constant
    for name, each in measured.items():
        if each.rows is None:
            rows = int(each.risks.counts.sum()) * len(measured)
            notes[_too_many(rows, spec)] = None
            continue
        predicted = Predicted.of(each.rows, each.risks.domains, domains, metric)
        skills[name] = predicted.skill(predicted.rows.prediction)
        refusal = predicted.refusal()
        if refusal:
            notes[refusal] = None
            continue
        called = _unused(f"{name} recalibrated", measured)
        corrected = predicted.recalibrated(level)
        risks[called], skills[called] = predicted.risks(corrected), predicted.skill(corrected)
        recalibrates[called] = name
    if recalibrates and metric.classes is not None and metric.name != "log-loss":
        notes[f"Scores are recalibrated for the log-loss and measured by {metric.name}."] = None
    return References(level, risks, recalibrates, skills, tuple(notes))


@dataclass(frozen=True, eq=False)
class Predicted:
    """The rows of a model on the evaluated ``domains``, sorted by domain."""

    rows: RowsOfPredictions
    domains: Sequence[Name]
    metric: Metric

    @classmethod
    def of(
        cls, rows: RowsOfPredictions, names: Sequence[Name], domains: Sequence[Name], metric: Metric
    ) -> Predicted:
        """Rows, numbered by all ``names``; those of domains that are not evaluated are left out."""
        ids = places_among(names, domains)[rows.domain]
        order = np.argsort(ids, kind="stable")[int((ids < 0).sum()) :]
        sorted_rows = RowsOfPredictions(
            ids[order].astype(np.int32), rows.label[order], rows.prediction[order]
        )
        return cls(sorted_rows, domains, metric)

    @property
    def classes(self) -> int:
        """K, or 0 for numbers."""
        if self.metric.classes is None:
            return 0
        return 2 if self.rows.prediction.ndim == 1 else self.rows.prediction.shape[1]

    @property
    def folds(self) -> NDArray[np.int64]:
        """The fold (m,) in which each domain is left out; always the same ones."""
        return np.random.default_rng(0).permutation(len(self.domains)) % FOLDS

    def refusal(self) -> str | None:
        """Why there is no recalibration, if there is none."""
        if len(self.domains) < FEWEST_DOMAINS:
            return (
                f"Recalibration is cross-fitted over domains and needs {FEWEST_DOMAINS} of them, "
                f"got {len(self.domains)}."
            )
        held = self.folds[self.rows.domain]
        for fold in range(FOLDS if self.classes else 0):
            labels = self.rows.label[held != fold].astype(np.int64)
            absent = np.flatnonzero(np.bincount(labels, minlength=self.classes) == 0)
            if absent.size:
                return (
                    f"Recalibration needs every class in every fold of domains, but class "
                    f"{absent[0]} occurs in too few domains."
                )
        return None

    def recalibrated(self, level: Level) -> Array:
        """Predictions corrected by what was fitted to other domains: shift and scale of scores."""
        target: NDArray[Any] = self.rows.label
        scores = self.rows.prediction
        if self.classes:
            target, scores = target.astype(np.int64), logits_of(scores)

        def kept_rows(kept: NDArray[np.bool_]) -> ScoredRows:
            ids = self.rows.domain[kept]
            number = np.cumsum(np.bincount(ids, minlength=len(self.domains)) > 0) - 1
            return ScoredRows.of(scores[kept], target[kept], self.classes, number[ids])

        found = cross_recalibrated(kept_rows, scores, self.folds[self.rows.domain], level)
        if not self.classes:
            return found
        found = probabilities_of(found, CLIP)
        if self.rows.prediction.ndim > found.ndim:  # probabilities of both classes
            found = np.column_stack([1.0 - found, found])
        return found

    def risks(self, predictions: Array) -> MeasuredRisks:
        """The risk of each domain with other predictions of the same rows."""
        label = self.rows.label
        if predictions.ndim == 2:
            losses = class_losses(self.metric, label.astype(np.int64), predictions)
        else:
            losses = self.metric.of_arrays(label, predictions)
        found = domain_risks(losses, self.rows.domain, len(self.domains))
        return MeasuredRisks.of(self.domains, found.counts, found.values, found.loss_variances)

    def skill(self, predictions: Array) -> Skill:
        """AUC or R², accuracy and calibration error over all rows."""
        if not self.classes:
            return skill_of_numbers(self.rows.label, predictions)
        return skill_of_classes(self.rows.label.astype(np.int64), predictions)


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    return f"{name} (reference)" if name in taken else name


def _why_none(spec: MeasurementSpec) -> str:
    if not spec.takes_predictions:
        return (
            "No references: a constant and a recalibration are computed from labels and "
            f"predictions ({Setting('target')}, {Setting('predictions')}), and only losses are "
            "known."
        )
    metric = spec.known_metric
    if metric is not None and metric.has_references:
        return "No references: predictions are classes; a recalibration needs their probabilities."
    *first, last = (each.name for each in DECLARED.values() if each.has_references)
    return (
        f"No references: they are defined for {', '.join(first)} and {last}, not for "
        f"{spec.name_of_loss}."
    )


def _too_many(rows: int, spec: MeasurementSpec) -> str:
    if spec.part:
        return (
            "Recalibration, AUC and accuracy are computed from the rows, which merged parts do "
            "not hold."
        )
    limit = spec.most_rows
    asked = (
        "" if limit == MOST_ROWS else f" Use {Setting('references', True)} for up to {MOST_ROWS:,}."
    )
    return (
        f"Recalibration, AUC and accuracy are computed for up to {limit:,} predictions, got "
        f"{rows:,}.{asked}"
    )


Constant = tuple[MeasuredRisks, Skill]
"""The risks of a constant, domain by domain, and its skill over all rows."""


def cross_fitted_constants(
    labels: LabelStatistics, metric: Metric, several: bool = False
) -> Mapping[str, Constant]:
    """The base rate and an even guess of classes, or the mean of numbers.

    ``several`` says that models give a probability of every class, not of label 1 alone.
    """
    if labels.means is not None and labels.variances is not None:
        return {MEAN: _mean(labels.domains, labels.counts[:, 0], labels.means, labels.variances)}
    m, classes = labels.counts.shape
    others = labels.counts.sum(axis=0) - labels.counts
    rates = np.maximum(others, HALF_A_ROW)
    rates /= rates.sum(axis=1, keepdims=True)
    found = {BASE_RATE: _of_classes(labels, rates, metric, several)}
    if metric.name != "0-1":  # which needs a class
        even = np.full((m, classes), 1.0 / classes)
        found[guess_name(classes)] = _of_classes(labels, even, metric, several)
    return found


def _of_classes(labels: LabelStatistics, shares: Array, metric: Metric, several: bool) -> Constant:
    """``shares`` (m, K) are the probabilities in each domain."""
    counts = labels.counts
    m, classes = counts.shape
    label = np.tile(np.arange(classes), m)
    if several:
        losses = class_losses(metric, label, np.repeat(shares, classes, axis=0))
    else:
        losses = metric.of_arrays(label.astype(np.float64), np.repeat(shares[:, 1], 2))
    losses = losses.reshape(m, classes)
    n = counts.sum(axis=1)
    risks = (counts * losses).sum(axis=1) / n
    squares = (counts * (losses - risks[:, None]) ** 2).sum(axis=1)
    variances = np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan)
    total = n.sum()
    accuracy = float(counts[np.arange(m), shares.argmax(axis=1)].sum() / total)
    if classes == 2:
        gap = (n * shares[:, 1]).sum() / total - counts[:, 1].sum() / total
    else:
        gap = (n * shares.max(axis=1)).sum() / total - accuracy
    ranking = 0.5 if (counts.sum(axis=0) > 0).sum() > 1 else math.nan  # it ranks nothing
    found = MeasuredRisks.of(labels.domains, n, risks, variances)
    return found, Skill(ranking, accuracy, abs(float(gap)))


def _mean(domains: tuple[Name, ...], n: Array, means: Array, variances: Array) -> Constant:
    """Squared errors of the mean of the other domains; their variance would need fourth moments."""
    total = n.sum()
    centre = float((n * means).sum() / total)
    own = means - centre  # sums of differences keep their digits
    inside = n * variances
    constant = -n * own / (total - n)
    risks = inside / n + (own - constant) ** 2
    spread = float((inside + n * own**2).sum())
    ranking = 1.0 - float((n * risks).sum()) / spread if spread else math.nan
    return MeasuredRisks.of(domains, n, risks, np.full(len(n), np.nan)), Skill(ranking)
