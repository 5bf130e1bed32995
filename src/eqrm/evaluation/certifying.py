"""Which certificate applies to the measured risks of a model: plain, of true risks, nested."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eqrm.errors import Setting, SettingError
from eqrm.evaluation.inference.certificates import Certificate, probability_bound, quantile_bound
from eqrm.evaluation.inference.nested.bounds import (
    ONCE,
    as_nested,
    known_group_bound,
    nested_bound,
)
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.inference.risk_checks import LevelLike
from eqrm.evaluation.inference.true_risk import true_probability_bound, true_risk_bound
from eqrm.risks import MeasuredRisks


@dataclass(frozen=True, eq=False)
class Certifier:
    """The risks of one model, what they are of, and the groups of nested domains.

    ``bounds`` are the least and the largest loss possible, if any; ``groups`` (m,) the group of
    each domain where domains are nested, and ``labels`` what groups and members are called.
    """

    risks: MeasuredRisks
    loss: str
    bounds: tuple[float, float] | None = None
    groups: tuple[str, ...] | None = None
    labels: tuple[str, str] | None = None

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
        plain = threshold is not None or true_risk
        asked = sampling is not None or group is not None
        if self.groups is None and asked:
            raise SettingError(
                "sampling and group are for nested domains. Name the column of the members "
                f"inside groups to evaluate: {Setting('within', 'COLUMN')}."
            )
        if plain and (sampling not in (None, ONCE) or group is not None):
            raise SettingError(
                "A bound with threshold or true_risk rests on one member of each group, drawn "
                "once: leave out sampling and group."
            )
        if plain or self.groups is None:
            found = self._of_independent(alpha, confidence, threshold, true_risk)
            if self.groups is None:
                return found
            return as_nested(found, self._nested, ONCE, self.labels)
        given: dict[str, Any] = {"alpha": alpha, "confidence": confidence, "labels": self.labels}
        if group is None:
            return nested_bound(self._nested, sampling=sampling, **given)
        return known_group_bound(self._nested, group, **given)

    @cached_property
    def _nested(self) -> NestedRisks:
        """The risks by group, sorted once for all levels."""
        return NestedRisks.of(self.risks.risks, self.groups)

    @property
    def independent(self) -> MeasuredRisks:
        """The domains, or where they are nested one member of each group, drawn at random."""
        if self.groups is None:
            return self.risks
        drawn = sorted(self._nested.drawn_members().tolist())
        return self.risks.only([self.risks.domains[i] for i in drawn])

    def _of_independent(
        self, alpha: LevelLike, confidence: float, threshold: float | None, true_risk: bool
    ) -> Certificate:
        risks = self.independent
        if not true_risk:
            if threshold is None:
                return quantile_bound(risks.risks, alpha, confidence)
            return probability_bound(risks.risks, threshold, confidence)
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
