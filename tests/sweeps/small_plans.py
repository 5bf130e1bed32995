"""Plans of tiny runs on the coloured digits, and an engine that trains them in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eqrm.sweeps.engines.base import Engine, RunOutcome
from eqrm.sweeps.execution import execute_run
from eqrm.sweeps.planned_runs import PlannedSweep, planned_sweep
from eqrm.sweeps.records import record_path
from eqrm.sweeps.sweep_folder import SweepFolder

SMALL: dict[str, Any] = {
    "seed": 3,
    "datasets": [{"name": "coloured-digits", "held_out": [["source-01", "source-02"]]}],
    "objectives": ["erm", "groupdro"],
    "draws": 2,
    "search": {"learning_rate": {"log-uniform": [1e-3, 1e-1]}},
    "run": {
        "predictor": {"name": "mlp", "settings": {"width": 8, "depth": 1, "dropout": 0.2}},
        "steps": 8,
        "phases": "single",
        "batches": {"domains": 10, "examples": 8},
        "training": {"device": "cpu", "evaluate_every": 4, "checkpoint_every": 2, "log_every": 2},
    },
}


def changed(**fields: Any) -> dict[str, Any]:
    """The small plan with fields replaced, those of ``run`` one by one; None removes a field."""
    run = {**SMALL["run"], **fields.pop("run", {})}
    merged = {**SMALL, "run": run, **fields}
    return {key: value for key, value in merged.items() if value is not None}


def planned(content: dict[str, Any]) -> PlannedSweep:
    return planned_sweep(content, "plan.yaml")


def records_of(folder: Path, sweep: PlannedSweep) -> dict[str, bytes]:
    """The bytes of every record."""
    return {run.run: record_path(folder, run.run).read_bytes() for run in sweep.runs}


class HereEngine(Engine):
    """Trains a run when it is asked how it ended; outcomes can be put in the place of some."""

    def __init__(
        self, folder: SweepFolder, first: dict[str, list[RunOutcome]] | None = None
    ) -> None:
        self.folder, self.first = folder, first or {}
        self.submitted: list[str] = []
        self._running: list[str] = []

    @property
    def free(self) -> int:
        return 2 - len(self._running)

    @property
    def running(self) -> list[str]:
        return self._running

    def submit(self, run: str) -> None:
        self.submitted.append(run)
        self._running.append(run)

    def poll(self, seconds: float) -> list[RunOutcome]:
        runs, self._running = self._running, []
        return [self._outcome(run) for run in runs]

    def _outcome(self, run: str) -> RunOutcome:
        if self.first.get(run):
            return self.first[run].pop(0)
        return execute_run(self.folder, run)

    def cancel(self) -> None:
        self._running = []
