"""Selection rules: which run and which checkpoint of a sweep to report.

A rule sees the runs of one dataset, objective and trial that hold out the same domains, one run
per draw of hyperparameters. It scores their checkpoints and takes the highest score. Equal scores
go to the lowest draw, then to the lowest step. What cannot be judged is named, never guessed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar

from eqrm.checks import one_of
from eqrm.distributions.equal_weights import equal_quantile
from eqrm.errors import EqrmError, SettingError
from eqrm.evaluation.measuring.set_metrics import SET_METRICS
from eqrm.level import Level
from eqrm.registry import Registry
from eqrm.sweeps.records import Checkpoint, RunRecord
from eqrm.text import listed

ACCURACY, RISK = "accuracy", "risk"
METRICS = (ACCURACY, RISK, *(name for name in SET_METRICS if name != ACCURACY))
"""What runs are selected and reported by; all but the risk are the better the higher. Those beside
accuracy and risk are recorded where ``training.metrics`` asks for them."""
BEST, LAST = "best", "last"
VALIDATION, TEST = "validation", "test"

SELECTION_RULES: Registry[Any] = Registry(
    "selection rule",
    {
        "training-domain": "eqrm.sweeps.selection:TrainingDomainValidation",
        "leave-one-domain-out": "eqrm.sweeps.selection:LeaveOneDomainOut",
        "oracle": "eqrm.sweeps.selection:OracleSelection",
        "quantile": "eqrm.sweeps.selection:QuantileSelection",
    },
)
"""Name → its class, in the order of the tables."""


class UnjudgedRunError(EqrmError):
    """A selection rule cannot judge a run: something that it needs was not recorded."""


@dataclass(frozen=True)
class Candidates:
    """The runs that a rule chooses from, by draw.

    ``validating`` are the runs that hold out one domain more, by draw and by that domain:
    leave-one-domain-out selection judges a draw by them.
    """

    held_out: frozenset[str]
    runs: Mapping[int, RunRecord]
    validating: Mapping[int, Mapping[str, RunRecord]] = field(default_factory=dict)


@dataclass(frozen=True)
class Selected:
    """The run and the checkpoint that a rule chose, and the score that decided it."""

    run: RunRecord
    checkpoint: Checkpoint
    score: float


@dataclass(frozen=True)
class Choice:
    """What a rule chose, None where it could judge no run; ``unjudged`` says why, by run."""

    selected: Selected | None
    unjudged: Mapping[str, str]


@dataclass(frozen=True)
class SelectionRule(ABC):
    """Score every checkpoint and take the highest score.

    ``metric`` is what scores are computed from: "accuracy", "risk", or one of ``METRICS`` that was
    recorded; domains that cannot have it do not count. ``checkpoints`` is "best" (over all
    checkpoints of a run) or "last" (no early stopping).
    """

    title: ClassVar[str]
    metric: str = ACCURACY
    checkpoints: str = BEST

    def __post_init__(self) -> None:
        one_of(self.metric, METRICS, "metric")
        one_of(self.checkpoints, (BEST, LAST), "checkpoint rule")

    @abstractmethod
    def scores(
        self, run: RunRecord, checkpoints: Sequence[Checkpoint], candidates: Candidates
    ) -> list[float]:
        """A score per checkpoint, the larger the better; or raise :class:`UnjudgedRunError`."""

    def select(self, candidates: Candidates) -> Choice:
        """The run and checkpoint with the highest score; the first by draw, then by step."""
        best: Selected | None = None
        unjudged = {}
        for _, run in sorted(candidates.runs.items()):
            steps = sorted(run.checkpoints, key=lambda checkpoint: checkpoint.step)
            judged = steps[-1:] if self.checkpoints == LAST else steps
            try:
                if not judged:
                    raise UnjudgedRunError("no checkpoint was recorded")
                scores = self.scores(run, judged, candidates)
            except UnjudgedRunError as error:
                unjudged[run.run] = str(error)
                continue
            finite = [(c, s) for c, s in zip(judged, scores, strict=True) if math.isfinite(s)]
            if not finite:
                unjudged[run.run] = f"no checkpoint with a finite {self.metric}"
            for checkpoint, score in finite:
                if best is None or score > best.score:
                    best = Selected(run, checkpoint, score)
        return Choice(best, unjudged)

    def _mean_score(self, values: Iterable[float]) -> float:
        """The mean metric, or minus the mean risk; correctly rounded, so that ties are ties."""
        return -fmean(values) if self.metric == RISK else fmean(values)


@dataclass(frozen=True)
class TrainingDomainValidation(SelectionRule):
    """The mean over training domains of what was measured on their validation examples.

    Whole validation domains count too. DomainBed's IIDAccuracySelectionMethod. ``pooled`` is the
    metric of all validation examples together, as WILDS selects by macro-F1 and average precision.
    """

    title: ClassVar[str] = "training-domain validation"
    pooled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_pooled_risk(self.metric, self.pooled)

    def scores(
        self, run: RunRecord, checkpoints: Sequence[Checkpoint], candidates: Candidates
    ) -> list[float]:
        if self.pooled:
            return [_of_validation(c, self.metric, candidates) for c in checkpoints]
        return [
            self._mean_score(_of_seen_domains(c, self.metric, candidates).values())
            for c in checkpoints
        ]


@dataclass(frozen=True)
class LeaveOneDomainOut(SelectionRule):
    """The mean over training domains of what runs reach that hold out this domain as well.

    A draw is judged at a step by one run per training domain, with the same draw and trial;
    without all of them it is not judged. DomainBed's LeaveOneOutSelectionMethod.
    """

    title: ClassVar[str] = "leave-one-domain-out"

    def scores(
        self, run: RunRecord, checkpoints: Sequence[Checkpoint], candidates: Candidates
    ) -> list[float]:
        others = candidates.validating.get(run.draw, {})
        first = run.checkpoints[0]
        splits = [*first.risks.values(), *first.accuracies.values()]
        needed = sorted({domain for split in splits for domain in split} - candidates.held_out)
        if not needed:
            raise UnjudgedRunError("no training domain is named in its record")
        if not others:
            raise UnjudgedRunError("no run with its draw and trial holds out one domain more")
        absent = [domain for domain in needed if domain not in others]
        if absent:
            raise UnjudgedRunError(
                f"no run with its draw and trial also holds out {listed(absent)}"
            )
        by_step = [{c.step: c for c in others[domain].checkpoints} for domain in needed]
        found = []
        for own in checkpoints:
            if not all(own.step in steps for steps in by_step):
                raise UnjudgedRunError(
                    f"not every run that holds out one domain more was measured at step {own.step}"
                )
            found.append(
                self._mean_score(
                    _of_domains(steps[own.step], self.metric, TEST, [domain])[0]
                    for steps, domain in zip(by_step, needed, strict=True)
                )
            )
        return found


@dataclass(frozen=True)
class OracleSelection(SelectionRule):
    """What was measured on validation examples of the held-out domains, after the last step.

    It looks at the domains that are reported: an upper reference, not a rule for practice.
    DomainBed's OracleSelectionMethod.
    """

    title: ClassVar[str] = "test-domain validation (oracle)"
    checkpoints: str = LAST

    def scores(
        self, run: RunRecord, checkpoints: Sequence[Checkpoint], candidates: Candidates
    ) -> list[float]:
        domains = sorted(candidates.held_out)
        values = [_of_domains(c, self.metric, VALIDATION, domains) for c in checkpoints]
        return [self._mean_score(each) for each in values]


@dataclass(frozen=True)
class QuantileSelection(SelectionRule):
    """The α-quantile over validation domains of their risk, the lower the better.

    With another metric than the risk it is 1 minus this metric (accuracy: the error rate), of
    domains that have it. The quantile is the paper's, with which m domains and α > 1 − 1/m give
    the largest risk.
    """

    title: ClassVar[str] = "quantile of validation domains"
    metric: str = RISK
    alpha: float | str = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        Level.of(self.alpha)

    def scores(
        self, run: RunRecord, checkpoints: Sequence[Checkpoint], candidates: Candidates
    ) -> list[float]:
        values = [_of_seen_domains(c, self.metric, candidates) for c in checkpoints]
        if any(each.keys() != values[0].keys() for each in values):
            raise UnjudgedRunError("its checkpoints were measured on different validation domains")
        level = Level.of(self.alpha)
        return [-self._quantile(list(each.values()), level) for each in values]

    def _quantile(self, values: list[float], level: Level) -> float:
        """The quantile of finite risks; infinite where one is not finite."""
        risks = values if self.metric == RISK else [1.0 - value for value in values]
        return equal_quantile(risks, level) if all(map(math.isfinite, risks)) else math.inf


def refuse_pooled_risk(metric: str | None, pooled: bool) -> None:
    """Refuse what was not recorded of all examples together."""
    if pooled and metric in (None, RISK):
        raise SettingError(
            "Only metrics of training.metrics are recorded of all examples together, got "
            f"{'no metric' if metric is None else repr(metric)}. Choose "
            f"{', '.join(name for name in METRICS if name != RISK)}, or leave out pooled."
        )


def reported(
    selected: Selected, held_out: Iterable[str], metric: str, pooled: bool = False
) -> float | None:
    """The mean over held-out domains of the test metric; None where one was not measured.

    Domains that cannot have the metric do not count. ``pooled`` is the metric of all test examples.
    """
    checkpoint = selected.checkpoint
    if pooled:
        known = checkpoint.metrics.get(TEST, {}).get(metric)
        return None if known is None else known.pooled
    try:
        return fmean(_of_domains(checkpoint, metric, TEST, held_out))
    except UnjudgedRunError:
        return None


def of_split(checkpoint: Checkpoint, metric: str, split: str) -> Mapping[str, float]:
    """The metric of each domain of a split; without domains that cannot have it."""
    if metric in (ACCURACY, RISK):
        known = checkpoint.accuracies if metric == ACCURACY else checkpoint.risks
        return known.get(split, {})
    found = checkpoint.metrics.get(split, {}).get(metric)
    return {} if found is None else found.domains


def _of_seen_domains(
    checkpoint: Checkpoint, metric: str, candidates: Candidates
) -> dict[str, float]:
    """The validation values of the domains that are not held out."""
    values = of_split(checkpoint, metric, VALIDATION)
    seen = {domain: value for domain, value in values.items() if domain not in candidates.held_out}
    if not seen:
        raise UnjudgedRunError(f"no validation {metric} of domains that are not held out")
    return seen


def _of_validation(checkpoint: Checkpoint, metric: str, candidates: Candidates) -> float:
    """The metric of all validation examples, none of which may be of held-out domains."""
    if not candidates.held_out.isdisjoint(checkpoint.risks.get(VALIDATION, {})):
        raise UnjudgedRunError(
            f"its pooled validation {metric} includes examples of held-out domains: set aside "
            "whole validation domains (data.validation)"
        )
    found = checkpoint.metrics.get(VALIDATION, {}).get(metric)
    if found is None or found.pooled is None:
        why = "was not recorded (training.metrics)" if found is None else "is not defined"
        raise UnjudgedRunError(f"its pooled validation {metric} {why}")
    return found.pooled


def _of_domains(
    checkpoint: Checkpoint, metric: str, split: str, domains: Iterable[str]
) -> list[float]:
    """The metric of those held-out domains that have it; all of them must have been measured."""
    values = of_split(checkpoint, metric, split)
    recorded = metric in checkpoint.metrics.get(split, {}) and metric not in (ACCURACY, RISK)
    measured = checkpoint.risks.get(split, {}) if recorded else values
    asked = list(domains)
    absent = [domain for domain in asked if domain not in measured]
    found = [values[domain] for domain in asked if domain in values]
    if absent or not found:
        missing = [*absent, *asked, ""][0]
        raise UnjudgedRunError(f"no {split} {metric} of the held-out domain {missing!r}")
    return found
