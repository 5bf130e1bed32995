"""Which certificate applies to the measured risks of a predictor: plain, of true risks, nested."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqrm.errors import Setting, SettingError
from eqrm.evaluation.inference.certificates import Certificate, probability_bound, quantile_bound
from eqrm.evaluation.inference.nested.bounds import (
    ONCE,
    as_nested,
    known_group_bound,
    new_group_bound,
)
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.inference.risk_checks import LevelLike
from eqrm.evaluation.inference.true_risk import true_probability_bound, true_risk_bound
from eqrm.risks import MeasuredRisks


@dataclass(frozen=True, eq=False)
class Certifier:
    """The risks of one predictor, what they are of, and the groups of nested domains.

    ``bounds`` are the least and the largest loss possible, if any; ``groups`` (m,) the group of
    each domain where domains are nested, and ``labels`` what groups and members are called.
    """

    risks: MeasuredRisks
    loss: str
    bounds: tuple[float, float] | None = None
    groups: tuple[str, ...] | None = None
    labels: tuple[str, str] | None = None
    _sorted: dict[str, NestedRisks] = field(default_factory=dict, init=False, repr=False)

    def certificate(
        self,
        alpha: LevelLike,
        confidence: float,
        *,
        threshold: float | None = None,
        true_risk: bool = False,
        sampling: str | None = None,
        group: str | None = None,
    ) -> Certificate:
        """As :meth:`eqrm.Evaluation.certificate` says."""
        risks, groups, labels = self.risks.risks, self.groups, self.labels
        asked: dict[str, Any] = {"threshold": threshold, "true_risk": true_risk}
        if groups is None:
            if sampling is not None or group is not None:
                raise SettingError(
                    "sampling and group are for nested domains. Name the column of the members "
                    f"inside groups to evaluate: {Setting('within', 'COLUMN')}."
                )
            return self._plain(self.risks, alpha, confidence, **asked)
        if threshold is None and not true_risk:
            if group is None:
                return new_group_bound(
                    self._nested(groups), alpha, confidence, sampling=sampling, labels=labels
                )
            return known_group_bound(risks, groups, group, alpha, confidence, labels=labels)
        if sampling not in (None, ONCE) or group is not None:
            raise SettingError(
                "A bound with threshold or true_risk rests on one member of each group, drawn "
                "once: leave out sampling and group."
            )
        plain = self._plain(self.independent, alpha, confidence, **asked)
        return as_nested(plain, self._nested(groups), ONCE, labels)

    def _nested(self, groups: tuple[str, ...]) -> NestedRisks:
        """The risks by group, sorted once for all levels."""
        if "nested" not in self._sorted:
            self._sorted["nested"] = NestedRisks.of(self.risks.risks, groups)
        return self._sorted["nested"]

    @property
    def independent(self) -> MeasuredRisks:
        """The domains, or where they are nested one member of each group, drawn at random."""
        if self.groups is None:
            return self.risks
        drawn = self._nested(self.groups).drawn_members()
        return self.risks.only([self.risks.domains[i] for i in sorted(drawn.tolist())])

    def _plain(
        self,
        risks: MeasuredRisks,
        alpha: LevelLike,
        confidence: float,
        threshold: float | None,
        true_risk: bool,
    ) -> Certificate:
        """About independent domains."""
        if true_risk:
            return self._of_true_risk(risks, alpha, confidence, threshold)
        if threshold is None:
            return quantile_bound(risks.risks, alpha, confidence)
        return probability_bound(risks.risks, threshold, confidence)

    def _of_true_risk(
        self, risks: MeasuredRisks, alpha: LevelLike, confidence: float, threshold: float | None
    ) -> Certificate:
        if self.bounds is None:
            raise SettingError(
                f"A bound on true risks needs bounds on the {self.loss}. Give the smallest and the "
                "largest possible loss, evaluate(..., bounds=(0, 1)); for the log-loss, set clip."
            )
        known = None if np.isnan(risks.variances).any() else risks.variances
        given: dict[str, Any] = {"loss_range": self.bounds, "loss_variances": known}
        if threshold is None:
            return true_risk_bound(risks.risks, risks.counts, alpha, confidence, **given)
        return true_probability_bound(risks.risks, risks.counts, threshold, confidence, **given)
