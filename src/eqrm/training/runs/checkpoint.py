"""Checkpoints of a run: the last few are kept, the newest that is whole is resumed from.

A checkpoint says which run it belongs to: what must agree for it to be resumed from.

The states of networks, optimizers, samplers and random generators are dicts and lists with tensors
in them, packed by ``eqrm.files.archive``: nothing that is read back can run.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eqrm.data.domain_data import DomainData
from eqrm.errors import CheckpointError, EqrmWarning, Setting
from eqrm.files.archive import flatten, read_archive, unflatten, write_archive
from eqrm.files.plain import plain_values
from eqrm.objectives.base import Objective
from eqrm.objectives.risk_memory import RiskMemory
from eqrm.predictors.base import Predictor
from eqrm.text import shortened
from eqrm.training.device_data import Batches
from eqrm.training.phases import Phases
from eqrm.training.training_settings import TrainingSettings

FORMAT = "eqrm checkpoint 2"
_NAME = re.compile(r"step-(\d{9})\.safetensors")


class DamagedCheckpointWarning(EqrmWarning):
    """The latest checkpoint could not be read, and an older one was used."""


class Found(NamedTuple):
    """A checkpoint that was read."""

    path: Path
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints in a folder, one file per step, the last ``keep`` of them."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[Path]:
        """The files, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state of a step, then remove what is older than the last ``keep``.

        Nothing is removed before the new file is on the disk.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(self.folder / f"step-{step:09d}.safetensors", state)
        for path in self.paths()[: -self.keep]:
            path.unlink(missing_ok=True)

    def newest(self) -> Found | None:
        """The newest checkpoint that is whole; None where there is none at all.

        A damaged one is skipped with a warning. If none can be read, that is an error, because
        starting over would lose their content.
        """
        damages: list[str] = []
        for path in reversed(self.paths()):
            try:
                state = read_checkpoint(path)
            except CheckpointError as error:
                damages.append(str(error))
                continue
            if not isinstance(state, dict):
                raise CheckpointError(f"{path} does not hold the state of a run.")
            if damages:
                warnings.warn(
                    f"{damages[0]} Continuing from {path.name} instead.",
                    DamagedCheckpointWarning,
                    stacklevel=2,
                )
            return Found(path, state)
        if damages:
            raise CheckpointError(damages[0])
        return None

    def remove_drafts(self) -> None:
        """Remove what was being written when the process was killed."""
        for path in [*self.folder.glob(".*.safetensors"), *self.folder.glob("*.draft")]:
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        for path in self.paths():
            path.unlink(missing_ok=True)
        self.remove_drafts()


def write_checkpoint(path: Path, state: Any) -> None:
    """Write a nested state of tensors and plain values; on the disk whole, or not at all."""
    write_archive(path, FORMAT, *flatten(state), durable=True)


def read_checkpoint(path: Path) -> Any:
    """The state in a checkpoint file; ``CheckpointError`` if it is damaged or not ours."""
    found = read_archive(
        path,
        FORMAT,
        "a checkpoint of eqrm",
        remedy="Remove it to continue from an older one, or start the run again.",
        error=CheckpointError,
        tensors=True,
    )
    try:
        return unflatten(found.content, found.tensors)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} does not hold the state of a run. {error}") from None


RESULTS_DO_NOT_DEPEND_ON = (
    "device",
    "evaluation_batch",
    "checkpoint_every",
    "checkpoints_kept",
    "tensorboard",
    "domains_listed",
    "metrics",
)
PROCESSES = ("rank", "world_size", "across")
"""Settings of the batches that say how they are shared out."""


def description_of_run(
    predictor: Predictor,
    data: DomainData,
    phases: Phases,
    batches: Batches,
    settings: TrainingSettings,
) -> dict[str, Any]:
    """What a checkpoint must agree with to be resumed from, in plain values."""
    sampled = getattr(batches, "settings", None)
    return {
        "phases": [
            {
                "objective": phase.minimised.name,
                **({"preset": phase.minimised.preset} if phase.minimised.preset else {}),
                "hyperparameters": {
                    key: plain_values(getattr(phase.minimised, key))
                    for key in phase.minimised.hyperparameters
                },
                "memory": _memory_of(phase.minimised),
                "steps": int(phase.length),
                "learning_rate": float(phase.rate()),
                "schedule": phase.schedule or "constant",
                "fresh_optimizer": phase.fresh_optimizer,
                "loss_scaling": phase.loss_scaling,
            }
            for phase in phases.phases
        ],
        "settings": _without(plain_values(settings), RESULTS_DO_NOT_DEPEND_ON),
        "batches": {} if sampled is None else _without(asdict(sampled), PROCESSES),
        "data": _digest_of(data),
        "weights": [
            [name, list(parameter.shape)] for name, parameter in predictor.named_parameters()
        ],
    }


def _without(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {key: plain_values(value) for key, value in values.items() if key not in names}


def _memory_of(objective: Objective) -> dict[str, Any] | None:
    memory = getattr(objective, "memory", None)
    if not isinstance(memory, RiskMemory):
        return None
    return {key: getattr(memory, key) for key in ("averaging", "half_life", "denoise")}


def _digest_of(data: DomainData) -> str:
    """A SHA-256 of targets, domains and their names; inputs may be too many to read."""
    digest = hashlib.sha256("\n".join(data.names).encode())
    for tensor in (data.y, data.domains):
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def refuse_another_run(found: Any, own: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of a run with other phases, settings or data."""
    if not isinstance(found, dict):
        raise CheckpointError("It does not say which run it belongs to.")
    difference = _first_difference(found, own, "")
    if difference is not None:
        raise CheckpointError(
            f"It belongs to another run: its {difference}. Use another folder, or start again "
            f"({Setting('resume', False)})."
        )


def _first_difference(found: Any, own: Any, path: str) -> str | None:
    """Where two descriptions differ first, and how."""
    inside: list[Any] = []
    if isinstance(found, dict) and isinstance(own, Mapping) and set(found) == set(own):
        inside = [(f"{path}.{key}" if path else key, found[key], own[key]) for key in own]
    elif isinstance(found, list) and isinstance(own, list) and len(found) == len(own):
        pairs = zip(found, own, strict=True)
        inside = [(f"{path}[{i}]", first, second) for i, (first, second) in enumerate(pairs)]
    elif found != own:
        theirs, ours = shortened(repr(found), 80), shortened(repr(own), 80)
        return f"{path or 'description'} is {theirs}, and this run's {ours}"
    return next((d for p, f, o in inside if (d := _first_difference(f, o, p)) is not None), None)
