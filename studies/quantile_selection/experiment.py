"""The runs of the study: a sweep per split, in the output folder, continued where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eqrm.errors import EqrmError
from eqrm.sweeps.records import RunRecord
from studies.outcome import Progress
from studies.quantile_selection.settings import LINEAR, OBJECTIVES, SelectionSettings
from studies.swept import run_plan


@dataclass(frozen=True)
class SplitRuns:
    """The finished runs of a split: those of each objective, and linear ERM.

    ``planned`` is how many runs there should be, linear ERM among them; ``failures`` says why
    others are missing, and ``seconds`` what the runs took.
    """

    runs: Mapping[str, tuple[RunRecord, ...]]
    linear: RunRecord
    planned: int
    failures: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def all_runs(self) -> tuple[RunRecord, ...]:
        """Every run that has a record, linear ERM last."""
        return (*(run for runs in self.runs.values() for run in runs), self.linear)


def run_splits(
    settings: SelectionSettings, seed: int, folder: Path, workers: int, progress: Progress
) -> list[SplitRuns]:
    """Every split, one after the other; what is finished is not trained again."""
    found = []
    for split in range(settings.splits):
        progress(split / settings.splits, f"split {split + 1} of {settings.splits}")
        found.append(_run_split(settings, seed, split, folder, workers))
    return found


def _run_split(
    settings: SelectionSettings, seed: int, split: int, folder: Path, workers: int
) -> SplitRuns:
    parts = [
        run_plan(settings.plan(seed, split), folder / f"split-{split}", workers),
        run_plan(settings.linear_plan(seed, split), folder / f"split-{split}-linear", 1),
    ]
    runs: dict[str, list[RunRecord]] = {name: [] for name in (*OBJECTIVES, LINEAR)}
    for record in (record for part in parts for record in part.records):
        runs[record.objective].append(record)
    failures = tuple(line for part in parts for line in part.failures)
    if not all(runs.values()):
        lines = "".join(f"\n  {line}" for line in failures)
        raise EqrmError(f"Split {split} has no finished run of some objective:{lines}")
    return SplitRuns(
        {name: tuple(runs[name]) for name in OBJECTIVES},
        runs[LINEAR][0],
        sum(part.planned for part in parts),
        failures,
        sum(part.seconds for part in parts),
    )
