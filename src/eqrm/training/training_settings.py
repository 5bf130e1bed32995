"""How a run is trained, apart from its phases: device, precision, how often what is done."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from eqrm.errors import SettingError, did_you_mean
from eqrm.training.early_stopping import EarlyStopping
from eqrm.training.optimizers import OptimizerChoice

PRECISIONS = ("float32", "bf16")
BATCH_NORMS = ("trained", "frozen")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a run that are no hyperparameters of an objective.

    Attributes:
        seed: of the weights' random draws, dropout and everything else but the batches.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"``: a GPU where there is one.
        precision: ``"float32"``, or ``"bf16"`` for mixed precision.
        optimizer: what trains the predictor.
        clip_gradients: the largest norm of an update's gradient; None for no bound.
        weight_average: the decay of an average of the weights, which is then what is evaluated
            and what the run ends with; None for none.
        batch_norm: ``"trained"``, or ``"frozen"`` to keep its statistics as they are.
        log_every: steps between two lines about the loss.
        evaluate_every: steps between two evaluations; None for one at the end only.
        evaluation_batch: examples per forward pass of an evaluation.
        early_stopping: when to stop before the last step; None for never.
        checkpoint_every: steps between two checkpoints; None for one at the end only.
        checkpoints_kept: how many of the last checkpoints stay.
        tensorboard: write TensorBoard's files too; None for where it is installed.

    >>> TrainingSettings(precision="fp8")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: There is no precision 'fp8'. Choose from: bf16, float32.
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "float32"
    optimizer: OptimizerChoice = field(default_factory=OptimizerChoice)
    clip_gradients: float | None = None
    weight_average: float | None = None
    batch_norm: str = "trained"
    log_every: int = 10
    evaluate_every: int | None = None
    evaluation_batch: int = 1024
    early_stopping: EarlyStopping | None = None
    checkpoint_every: int | None = 100
    checkpoints_kept: int = 2
    tensorboard: bool | None = None

    def __post_init__(self) -> None:
        _whole("seed", self.seed, 0)
        for name in ("log_every", "evaluation_batch", "checkpoints_kept"):
            _whole(name, getattr(self, name), 1)
        for name in ("evaluate_every", "checkpoint_every"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1)
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("batch_norm", self.batch_norm, BATCH_NORMS)
        if self.clip_gradients is not None and not _between(self.clip_gradients, 0, math.inf):
            raise SettingError(
                f"clip_gradients must be a finite number above 0, not {self.clip_gradients!r}."
            )
        if self.weight_average is not None and not _between(self.weight_average, 0, 1):
            raise SettingError(
                "weight_average is a decay and must lie between 0 and 1 (0.999, say), not "
                f"{self.weight_average!r}."
            )
        if self.early_stopping is not None and self.evaluate_every is None:
            raise SettingError("early_stopping needs evaluate_every: how often to look.")
        self.torch_device()

    def torch_device(self) -> torch.device:
        """The device to train on.

        >>> TrainingSettings(device="cpu").torch_device()
        device(type='cpu')
        """
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
        except (RuntimeError, TypeError):
            raise SettingError(
                f"There is no device {self.device!r}. Choose auto, cpu, cuda or cuda:NUMBER."
            ) from None
        if device.type not in ("cpu", "cuda"):
            raise SettingError(
                f"Training on {self.device!r} is not supported. Choose auto, cpu, cuda or "
                "cuda:NUMBER."
            )
        if device.type == "cuda" and not torch.cuda.is_available():
            raise SettingError(
                f"The device {self.device!r} needs a GPU that torch can use, and there is none. "
                "Use device: cpu, or auto."
            )
        return device


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(f"{name} must be a whole number, {least} or more, not {value!r}.")


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        what = name.replace("_", " ")
        raise SettingError(f"There is no {what} {value!r}. {did_you_mean(value, choices)}")


def _between(value: Any, low: float, high: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low < value < high
