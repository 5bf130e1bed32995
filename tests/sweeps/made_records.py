"""Records of runs made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from eqrm.sweeps.records import Checkpoint, RunRecord

Split = Mapping[str, float]


def checkpoint(
    step: int = 0,
    validation: Split | None = None,
    test: Split | None = None,
    validation_risks: Split | None = None,
    test_risks: Split | None = None,
) -> Checkpoint:
    """A checkpoint with the accuracies and risks that are given."""
    accuracies = {"validation": validation, "test": test}
    risks = {"validation": validation_risks, "test": test_risks}
    return Checkpoint(
        step,
        {split: values for split, values in risks.items() if values is not None},
        {split: values for split, values in accuracies.items() if values is not None},
    )


def record(
    *checkpoints: Checkpoint,
    held_out: tuple[str, ...] = ("c",),
    draw: int = 0,
    trial: int = 0,
    objective: str = "erm",
    dataset: str = "toy",
) -> RunRecord:
    """A run named after its place in the grid."""
    run = f"{dataset}-{objective}-{'+'.join(held_out)}-{draw}-{trial}"
    return RunRecord(run, dataset, objective, held_out, draw, trial, {}, checkpoints)
