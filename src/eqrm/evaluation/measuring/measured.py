"""What is known of one model once it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import Name, NumberedDomains, places_among
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.requirement import Requirement
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.evaluation.measuring.set_metrics import DomainMetric, SetMetric, roc_area
from eqrm.risks import MeasuredRisks, merged_moments
from eqrm.text import counted

Array = NDArray[np.float64]
BINS = 15
"""Of predicted probabilities, each with as many rows, for the calibration error."""


@dataclass(frozen=True, eq=False)
class LabelStatistics:
    """The labels of each domain: ``counts`` (m, K) of classes.

    Where labels are numbers, ``counts`` is (m, 1), with ``means`` and ``variances`` (m,), whose
    divisor is n: the sum of weights.
    """

    domains: tuple[Name, ...]
    counts: Array
    means: Array | None = None
    variances: Array | None = None

    @classmethod
    def of_rows(
        cls,
        domains: tuple[Name, ...],
        ids: NDArray[Any],
        labels: Array,
        classes: int,
        weights: Array | None = None,
    ) -> LabelStatistics:
        """From the number of the domain (n,), the label (n,) and the weight (n,) of each row."""
        m = len(domains)
        if classes:
            cells = ids * classes + labels.astype(np.int64)
            counts = np.bincount(cells, weights, m * classes).astype(np.float64)
            return cls(domains, counts.reshape(m, classes))
        share: Any = 1.0 if weights is None else weights
        counts = np.bincount(ids, weights, m).astype(np.float64)
        means = np.bincount(ids, share * labels, m) / counts
        squares = np.bincount(ids, share * (labels - means[ids]) ** 2, m)
        return cls(domains, counts[:, None], means, squares / counts)

    @classmethod
    def merged(cls, parts: Sequence[LabelStatistics | None]) -> LabelStatistics | None:
        """The labels of all rows of several parts; None where a part does not know them."""
        known = [part for part in parts if part is not None]
        widths = {part.counts.shape[1] for part in known}
        if len(known) < len(parts) or len(widths) != 1:
            return None
        place: dict[str, int] = {}
        names = [str(name) for part in known for name in part.domains]
        ids = np.array([place.setdefault(name, len(place)) for name in names])
        given = np.concatenate([part.counts for part in known])
        counts = np.zeros((len(place), widths.pop()))
        np.add.at(counts, ids, given)
        if known[0].means is None:
            return cls(tuple(place), counts)
        means, variances = (
            np.concatenate([np.asarray(getattr(part, key)) for part in known])
            for key in ("means", "variances")
        )
        n = given[:, 0]
        _, means, squares = merged_moments(ids, n, means, variances * n)
        return cls(tuple(place), counts, means, squares / counts[:, 0])

    def only(self, domains: Sequence[Name]) -> LabelStatistics:
        """The same of these domains, in this order; they may have become text."""
        place = {str(name): i for i, name in enumerate(self.domains)}
        rows = [place[str(name)] for name in domains]
        kept = [None if part is None else part[rows] for part in (self.means, self.variances)]
        return LabelStatistics(tuple(domains), self.counts[rows], *kept)


@dataclass(frozen=True, eq=False)
class DomainFacts:
    """Names of domains as strings: those ``seen`` in training, and when each began.

    ``seen`` is None where no column says so, ``began`` where no column orders the domains.
    """

    seen: frozenset[str] | None = None
    began: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """One model: its risks, and what its references are made of, as far as that is known.

    ``several`` says that it gives a probability of every class; ``labels`` are statistics by
    domain, and the domains of ``rows`` are numbered as in ``risks``. ``facts`` are what other
    columns say of the domains.
    """

    risks: MeasuredRisks
    several: bool = False
    labels: LabelStatistics | None = None
    rows: RowsOfPredictions | None = None
    facts: DomainFacts = field(default_factory=DomainFacts)
    reread: Callable[[], Iterator[RowsOfPredictions]] | None = None
    """The rows of whole domains at a time, where there are too many to keep."""
    of_sets: Callable[[Sequence[Name]], DomainMetric] | None = None
    classes: tuple[Any, ...] = ()
    """The names of classes, where predictions have them."""

    @property
    def parts(self) -> Iterator[RowsOfPredictions]:
        """All rows, those of a domain in one part."""
        if self.rows is not None:
            yield self.rows
        elif self.reread is not None:
            yield from self.reread()

    def needing(
        self, requirement: Requirement, limits: Sequence[float], miss: float = 0.0
    ) -> Array:
        """The settings that domains need (L, m), for several shares allowed."""
        found = np.full((len(limits), len(self.risks)), -np.inf)
        for part in self.parts:
            here = requirement.needed(part, len(self.risks), limits, miss)
            np.maximum(found, here, out=found)
        return found

    def by_requirement(self, requirement: Requirement) -> Measured:
        """The setting that each domain needs, as its risk."""
        (needed,) = self.needing(requirement, [requirement.allowed])
        unknown = np.full(len(needed), np.nan)
        risks = replace(self.risks, risks=needed, variances=unknown)
        return replace(self, risks=risks)

    def keeping(self, requirement: Requirement, settings: Sequence[float]) -> Array:
        """What is kept in each domain (J, m) at several settings."""
        found = np.full((len(settings), len(self.risks)), np.nan)
        for part in self.parts:
            here = np.bincount(part.domain, minlength=found.shape[1]) > 0
            for row, setting in zip(found, settings, strict=True):
                row[here] = requirement.kept(part, len(row), setting)[here]
        return found

    @classmethod
    def by_metric(
        cls, name: str, metric: SetMetric, labels: Any, predictions: Any, domains: NumberedDomains
    ) -> Measured:
        """By a metric of labels and predictions (n, …); which domains count is known later."""

        def of(kept: Sequence[Name]) -> DomainMetric:
            ids = places_among(domains.names, kept)[domains.ids]
            rows = ids >= 0
            numbered = NumberedDomains(ids[rows], tuple(kept))
            try:
                return DomainMetric.of(metric, labels[rows], predictions[rows], numbered)
            except DomainDataError as error:
                raise DomainDataError(f"{name}: {error}") from None

        if np.shape(predictions)[:1] != labels.shape[:1]:
            given = len(np.atleast_1d(predictions))
            raise DomainDataError(
                f"{name}: there are {counted(len(labels), 'label')} and "
                f"{counted(given, 'prediction')}. Give one per example."
            )
        unknown = np.full(len(domains.names), np.nan)
        counts = np.bincount(domains.ids, minlength=len(unknown))
        return cls(MeasuredRisks.of(domains.names, counts, unknown, unknown), of_sets=of)


@dataclass(frozen=True)
class Skill:
    """How well rows are predicted, all domains together.

    ``ranking`` is the area under the ROC curve of classes (one against the rest where there are
    several), or R² of numbers; ``accuracy`` and ``calibration_error`` are of classes only. The
    calibration error is the mean distance between predicted probability and observed frequency.
    """

    ranking: float
    accuracy: float | None = None
    calibration_error: float | None = None

    @property
    def named(self) -> dict[str, float]:
        """The numbers by the names that tables give them; NaN where one is not defined."""
        if self.accuracy is None or self.calibration_error is None:
            return {"R²": self.ranking}
        return {
            "AUC": self.ranking,
            "accuracy": self.accuracy,
            "calibration": self.calibration_error,
        }

    @property
    def above_chance(self) -> float:
        """The ranking above that of a constant: AUC − ½, or R²; 0 where it is not defined."""
        found = self.ranking if self.accuracy is None else self.ranking - 0.5
        return 0.0 if math.isnan(found) else found

    def to_dict(self) -> dict[str, float | None]:
        """Plain data; a ranking that is not defined, for lack of a second class, is None."""
        return {k: None if v is None or math.isnan(v) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Skill:
        """The reverse of :meth:`to_dict`."""
        ranking = math.nan if content["ranking"] is None else content["ranking"]
        return cls(ranking, content["accuracy"], content["calibration_error"])


def skill_of_numbers(target: Array, predictions: Array) -> Skill:
    """Of predicted numbers (n,)."""
    spread = float(((target - target.mean()) ** 2).sum())
    return Skill(1.0 - float(((target - predictions) ** 2).sum()) / spread if spread else math.nan)


def skill_of_classes(labels: NDArray[Any], probabilities: Array) -> Skill:
    """Of probabilities (n, K), or (n,) of the second of two classes."""
    if probabilities.ndim == 1:
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    present = np.unique(labels)
    ranked = (1,) if probabilities.shape[1] == 2 else present
    ranking = math.nan
    if len(present) > 1:
        ranking = float(np.mean([roc_area(labels == k, probabilities[:, k]) for k in ranked]))
    guesses = probabilities.argmax(axis=1)
    if probabilities.shape[1] == 2:
        predicted, observed = probabilities[:, 1], labels == 1
    else:
        predicted, observed = probabilities.max(axis=1), guesses == labels
    # Bins of about as many rows each; equal predictions are in one.
    ascending = np.sort(predicted)
    edges = np.unique(ascending[np.arange(1, BINS) * len(ascending) // BINS])
    bins = np.searchsorted(edges, predicted, side="right")
    counts = np.bincount(bins)
    away = np.bincount(bins, predicted) - np.bincount(bins, observed.astype(float))
    error = round(float(np.abs(away[counts > 0]).sum()) / len(predicted), 12)
    return Skill(ranking, float((labels == guesses).mean()), error)
