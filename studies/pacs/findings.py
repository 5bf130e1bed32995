"""What the runs say: accuracies on the domain that was left out, and differences to ERM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.selection import (
    Candidates,
    OracleSelection,
    QuantileSelection,
    SelectionRule,
    TrainingDomainValidation,
)
from studies.pacs.settings import ALPHA, ERM, PacsSettings

RULES: dict[str, SelectionRule] = {
    "training domains": TrainingDomainValidation(),
    f"{ALPHA:g}-quantile": QuantileSelection(alpha=ALPHA),
    "last checkpoint (oracle)": OracleSelection(),
}
"""By what the checkpoint is selected; the first is the one that conclusions are drawn from."""
MAIN_RULE = next(iter(RULES))
CONFIDENCE = 0.95
TEST = "test"


@dataclass(frozen=True)
class AccuracyGain:
    """Of the mean accuracy over domains between two methods, in points, with its interval.

    Runs are paired by trial, in which all methods have the same split of the examples. The interval
    is Student's, from the variances of the differences within each domain.
    """

    mean: float
    half_width: float

    @property
    def verdict(self) -> str:
        """In words."""
        if abs(self.mean) <= self.half_width:
            return "not distinguishable"
        return "above" if self.mean > 0.0 else "below"

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half_width:.2f}"


class PacsFindings:
    """The finished runs, by method, domain and seed."""

    def __init__(self, settings: PacsSettings, records: Sequence[RunRecord]) -> None:
        self.settings, self.domains = settings, settings.held_out
        self.runs: dict[tuple[str, str, int], dict[int, RunRecord]] = {}
        for each in records:
            (domain,) = each.held_out
            self.runs.setdefault((each.objective, domain, each.trial), {})[each.draw] = each
        finished = {each.objective for each in records}
        self.methods = [
            each["label"] for each in settings.objectives() if each["label"] in finished
        ]

    def accuracies(self, method: str, domain: str, rule: str = MAIN_RULE) -> list[float]:
        """In percent, by seed; of runs that are finished."""
        found = []
        for trial in range(self.settings.trials):
            runs = self.runs.get((method, domain, trial), {})
            selected = RULES[rule].select(Candidates(frozenset([domain]), runs)).selected
            if selected is not None:
                found.append(100.0 * selected.checkpoint.accuracies[TEST][domain])
        return found

    def is_complete(self, method: str) -> bool:
        """Whether every run of a method is finished."""
        return all(
            len(self.accuracies(method, each)) == self.settings.trials for each in self.domains
        )

    def mean(self, method: str, rule: str = MAIN_RULE) -> float:
        """Over domains and seeds, each domain with the same weight."""
        return fmean(fmean(self.accuracies(method, domain, rule)) for domain in self.domains)

    def error(self, method: str, rule: str = MAIN_RULE) -> float | None:
        """The standard error of :meth:`mean` over seeds; None of one seed."""
        return _error([self.accuracies(method, domain, rule) for domain in self.domains])

    def difference(
        self, method: str, other: str = ERM, rule: str = MAIN_RULE
    ) -> AccuracyGain | None:
        """Between two methods; None of one seed."""
        from scipy.stats import t

        pairs = [
            [
                one - two
                for one, two in zip(
                    self.accuracies(method, each, rule),
                    self.accuracies(other, each, rule),
                    strict=True,
                )
            ]
            for each in self.domains
        ]
        error = _error(pairs)
        if error is None:
            return None
        freedom = sum(len(each) - 1 for each in pairs)
        width = float(t.ppf(0.5 + 0.5 * CONFIDENCE, freedom)) * error
        return AccuracyGain(fmean(map(fmean, pairs)), width)


def _error(by_domain: Sequence[Sequence[float]]) -> float | None:
    """The standard error of the mean over domains, from the spread over seeds within each."""
    if min(map(len, by_domain)) < 2:
        return None
    return math.sqrt(sum(stdev(each) ** 2 / len(each) for each in by_domain)) / len(by_domain)
