"""Which run a checkpoint belongs to: what it must agree with to be resumed from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from eqrm.data.domain_data import DomainData
from eqrm.errors import CheckpointError, Setting
from eqrm.files.plain import plain_values
from eqrm.objectives.base import Objective
from eqrm.objectives.risk_memory import RiskMemory
from eqrm.predictors.base import Predictor
from eqrm.text import shortened
from eqrm.training.device_data import Batches
from eqrm.training.phases import Phases
from eqrm.training.training_settings import TrainingSettings

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
    """Refuse the checkpoint of a run with other phases, settings or data.

    >>> refuse_another_run({"settings": {"seed": 0}}, {"settings": {"seed": 1}})
    Traceback (most recent call last):
        ...
    eqrm.errors.CheckpointError: It belongs to another run: its settings.seed is 0, and this run's
        1. Use another folder, or start again (resume=False).
    """
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
