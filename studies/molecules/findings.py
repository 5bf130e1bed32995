"""What the runs say: quantiles of the risk over unseen scaffolds, with and without noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.evaluation import denoised_quantile, noise_split
from eqrm.risks import MeasuredRisks
from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.selection import (
    Candidates,
    QuantileSelection,
    SelectionRule,
    TrainingDomainValidation,
)
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.training.runs.run_folder import RunFolder
from studies.molecules.settings import (
    CONTINUED,
    ERM,
    JUDGED,
    LEVELS,
    SUPERQUANTILE_LEVEL,
    TEST,
    MoleculesSettings,
    eqrm_label,
)
from studies.swept import FIRST_STAGE, second_stage


@dataclass(frozen=True, eq=False)
class Chosen:
    """The run of a method in a trial that the validation scaffolds chose, and its test risks."""

    record: RunRecord
    risks: MeasuredRisks

    def metric(self, name: str) -> float | None:
        """Of all molecules of unseen scaffolds."""
        known = self.record.checkpoints[-1].metrics.get(TEST, {}).get(name)
        return None if known is None else known.pooled


class DatasetFindings:
    """The finished runs of a dataset, by method and trial, and what stands beside them."""

    def __init__(
        self,
        dataset: str,
        settings: MoleculesSettings,
        records: Sequence[RunRecord],
        folder: Path,
        beside: Mapping[int, Mapping[str, MeasuredRisks]],
    ) -> None:
        self.dataset, self.settings, self.beside = dataset, settings, beside
        self.methods = [ERM, *(each["label"] for each in settings.later_methods())]
        self.chosen = {
            (method, trial): found
            for method in self.methods
            for trial in range(settings.trials)
            if (found := _chosen(method, trial, records, folder)) is not None
        }

    def trials(self, method: str) -> list[MeasuredRisks]:
        """The test risks of a method or baseline, by trial; of what is finished."""
        trials = range(self.settings.trials)
        if method in self.methods:
            own = [self.chosen.get((method, trial)) for trial in trials]
            return [each.risks for each in own if each is not None]
        found = [self.beside.get(trial, {}).get(method) for trial in trials]
        return [each for each in found if each is not None]

    def all_names(self) -> list[str]:
        """Methods and baselines that are finished in every trial."""
        others = dict.fromkeys(name for found in self.beside.values() for name in found)
        names = [*self.methods, *others]
        return [name for name in names if len(self.trials(name)) == self.settings.trials]

    def quantiles(self, method: str, level: float) -> list[float]:
        """Of the measured risks, by trial."""
        return [
            float(np.quantile(each.risks, level, method="inverted_cdf"))
            for each in self.trials(method)
        ]

    def true_quantiles(self, method: str, level: float) -> list[float]:
        """Of the risks without sampling noise, by trial."""
        return [
            denoised_quantile(each.risks, each.counts, each.variances, level)
            for each in self.trials(method)
        ]

    def differences(self, level: float, other: str = ERM, measured: bool = False) -> list[float]:
        """EQRM's quantile without noise at its own level, less that of another, by trial.

        ``measured``: that of the measured risks instead.
        """
        quantiles = self.quantiles if measured else self.true_quantiles
        pairs = zip(quantiles(eqrm_label(level), level), quantiles(other, level), strict=True)
        return [own - theirs for own, theirs in pairs]

    def noise(self, method: str = ERM, level: float = JUDGED[0]) -> list[Any]:
        """How much of the spread, and of what is beyond a quantile, is noise, by trial."""
        return [
            noise_split(each.risks, each.counts, each.variances, level)
            for each in self.trials(method)
        ]

    def counts(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Molecules of each unseen scaffold."""
        return self.trials(ERM)[0].counts


def _rule(method: str) -> SelectionRule:
    levels = {eqrm_label(level): level for level in LEVELS}
    if method in (ERM, CONTINUED):
        return TrainingDomainValidation(metric="risk")
    return QuantileSelection(alpha=levels.get(method, SUPERQUANTILE_LEVEL))


def _chosen(method: str, trial: int, records: Sequence[RunRecord], folder: Path) -> Chosen | None:
    own = {each.draw: each for each in records if (each.objective, each.trial) == (method, trial)}
    if not own:
        return None
    held_out = frozenset(next(iter(own.values())).held_out)
    selected = _rule(method).select(Candidates(held_out, own)).selected
    if selected is None:
        return None
    record = selected.run
    stage = FIRST_STAGE if method == ERM else second_stage(trial)
    rows = RunFolder(SweepFolder(folder / stage).of_run(record.run)).read_risks()
    test = [row for row in rows if row["split"] == TEST]
    columns = ([row[name] for row in test] for name in ("domain", "examples", "risk", "variance"))
    domains, counts, risks, variances = columns
    known = [np.nan if each is None else each for each in variances]
    return Chosen(record, MeasuredRisks.of(domains, counts, risks, known))
