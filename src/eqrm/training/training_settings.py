"""How a run is trained, apart from its phases: device, precision, and intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from eqrm.checks import (
    COUNT,
    NON_NEGATIVE,
    OPEN_FRACTION,
    POSITIVE,
    SEED,
    Rule,
    check_fields,
    integer,
    one_of,
    optional,
    ruled,
)
from eqrm.data.augmentation import Augmentation
from eqrm.errors import SettingError
from eqrm.evaluation.measuring.set_metrics import SET_METRICS, set_metric
from eqrm.level import Level
from eqrm.objectives.base import CAPTURABLE, OptimizerChoice

PRECISIONS = ("float32", "bf16")
BATCH_NORMS = ("trained", "frozen")
DOMAIN_RISKS = ("examples", "labels")
SEVERAL_METRICS = Rule(
    f"a list of different metrics: {', '.join(SET_METRICS)}",
    lambda given: (
        isinstance(given, (list, tuple))
        and bool(given)
        and all(isinstance(name, str) for name in given)
        and len(set(given)) == len(given)
    ),
)
ADDED = {"added": True}
"""Metadata of a field added after version 0.1: it is not written at its default, so that the hash
of a run, and what its checkpoints say of it, stay as they were."""


@dataclass(frozen=True)
class EarlyStopping:
    """When to stop: after ``patience`` evaluations in a row without improvement.

    What must fall by ``smallest_gain`` is the ``alpha``-quantile (None: the mean) of the risk
    over the domains of ``split``. Only the last phase is watched: burn-in must not end a run before
    its objective began. The weights of the best evaluation are those that the run ends with.
    """

    alpha: Level | float | str | None = 0.9
    patience: int = ruled(5, COUNT)
    split: str = "validation"
    smallest_gain: float = ruled(0.0, NON_NEGATIVE)

    def __post_init__(self) -> None:
        if self.alpha is not None:
            object.__setattr__(self, "alpha", Level.of(self.alpha))
        check_fields(self)


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a run that are not hyperparameters of an objective.

    They are the fields ``training`` of a configuration, in whose list (docs/training.md) each has
    a line.

    Attributes:
        seed: of the weights' random draws, dropout and everything else but the batches.
        clip_gradients: the largest norm of an update's gradient; None for no bound.
        weight_average: the decay of an average of the weights, which is then what is evaluated
            and what the run ends with; None for none.
        evaluate_every, checkpoint_every: None for once, at the end.
        tensorboard: write TensorBoard's files too; None for where it is installed.
        domains_listed: ``metrics.jsonl`` lists the risk of every domain where a split has at most
            this many; None for any number.
        cuda_graph: on one GPU, capture the step as a CUDA graph and replay it, where batches are
            tensors of one shape and the objective does the same in every step.
        domain_risk: what the risk of a training domain is where examples have several labels, some
            of them missing: the mean over its ``"examples"``, each of them the mean over its
            labels; or the mean over all ``"labels"`` that are present in the domain. Held-out
            risks are means over examples in both cases.
    """

    seed: int = ruled(0, SEED)
    device: str = "auto"
    precision: str = "float32"
    optimizer: OptimizerChoice = field(default_factory=OptimizerChoice)
    clip_gradients: float | None = ruled(None, optional(POSITIVE))
    weight_average: float | None = ruled(None, optional(OPEN_FRACTION))
    batch_norm: str = "trained"
    log_every: int = ruled(10, COUNT)
    evaluate_every: int | None = ruled(None, optional(COUNT))
    evaluation_batch: int = ruled(1024, COUNT)
    early_stopping: EarlyStopping | None = None
    checkpoint_every: int | None = ruled(100, optional(COUNT))
    checkpoints_kept: int = ruled(2, COUNT)
    tensorboard: bool | None = None
    domains_listed: int | None = ruled(20, optional(integer(0, 1_000_000_000)), **ADDED)
    evaluate_first: bool = field(default=False, metadata=ADDED)
    augment: Augmentation | None = field(default=None, metadata=ADDED)
    cuda_graph: bool = field(default=False, metadata=ADDED)
    domain_risk: str = field(default="examples", metadata=ADDED)
    metrics: list[str] | None = field(
        default=None, metadata={"rule": optional(SEVERAL_METRICS), **ADDED}
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.metrics is not None:
            names = [set_metric(name).name for name in self.metrics]
            object.__setattr__(self, "metrics", names)
        one_of(self.precision, PRECISIONS, "precision")
        one_of(self.batch_norm, BATCH_NORMS, "batch norm")
        one_of(self.domain_risk, DOMAIN_RISKS, "value of domain_risk")
        if self.early_stopping is not None and self.evaluate_every is None:
            raise SettingError(
                "early_stopping needs evaluate_every, the steps between evaluations."
            )
        if self.cuda_graph and self.optimizer.name not in CAPTURABLE:
            raise SettingError(
                f"cuda_graph needs the optimizer {' or '.join(CAPTURABLE)}, got "
                f"{self.optimizer.name}. Choose one of them, or leave out cuda_graph."
            )
        known_device(self.device)

    def torch_device(self) -> torch.device:
        """The device to train on."""
        device, there = known_device(self.device), torch.cuda.is_available()
        if device is None:
            return torch.device("cuda" if there else "cpu")
        if device.type == "cuda" and not there:
            raise SettingError(
                f"The device {self.device!r} needs a GPU that torch can use, and none was found. "
                "Use device: cpu, or auto."
            )
        return device


def known_device(name: str) -> torch.device | None:
    """The device of this name, whether or not this machine has it; None for auto.

    Runs that were trained on a GPU are read, and jobs for other machines planned, without one.
    """
    if name == "auto":
        return None
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SettingError(f"Unknown device {name!r}. Choose auto, cpu, cuda or cuda:NUMBER.")
    return device
