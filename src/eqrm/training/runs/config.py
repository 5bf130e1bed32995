"""The configuration of a run, as a YAML file holds it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from eqrm.errors import SettingError
from eqrm.level import Level
from eqrm.objectives.base import Objective
from eqrm.objectives.registry import objective_class
from eqrm.objectives.risk_based import EQRM
from eqrm.objectives.risk_memory import RiskMemory
from eqrm.training.phases import Phase, recommended_phases
from eqrm.training.runs.config_reading import naming_field, read_as, read_yaml, with_changes
from eqrm.training.training_settings import TrainingSettings

Names = list[str | int | float]


@dataclass(frozen=True)
class DataConfig:
    """Which data, and which domains are kept apart.

    Attributes:
        dataset: a name that ``eqrm.data.dataset`` knows, with its ``settings``.
        train: domains by name; all that are not held out unless given.
        validation, test: domains by name, or a share of the domains.
        validation_examples: instead of validation domains, a share of the examples of every
            training domain.
        seed: of the shares.
    """

    dataset: str
    settings: dict[str, Any] = field(default_factory=dict)
    train: Names | None = None
    validation: Names | float = field(default_factory=list)
    test: Names | float = field(default_factory=list)
    validation_examples: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        used: dict[str, str] = {}
        for part in ("train", "validation", "test"):
            given = getattr(self, part)
            for name in given if isinstance(given, list) else []:
                key = str(name)
                if used.get(key) == part:
                    raise SettingError(f"{part} lists the domain {key!r} twice. List it once.")
                if key in used:
                    raise SettingError(
                        f"the domain {key!r} is in {used[key]} and in {part}. A domain may be in "
                        "one of them only: remove it from the other."
                    )
                used[key] = part
        if self.seed < 0:
            raise SettingError(f"seed must be a whole number, 0 or more, not {self.seed!r}.")
        share = self.validation_examples
        if share is not None and not 0.0 < share < 1.0:
            raise SettingError(f"validation_examples must lie between 0 and 1, not {share!r}.")
        if share is not None and self.validation:
            raise SettingError("give validation or validation_examples, not both.")


@dataclass(frozen=True)
class BatchConfig:
    """What a batch holds, see :class:`eqrm.data.DomainBatches`."""

    domains: int | None = None
    examples: int | None = None
    over: Literal["domains", "examples"] = "domains"
    repeat_domains: bool = False
    repeat_examples: bool = False
    across: Literal["domains", "examples"] = "domains"
    seed: int | None = None


@dataclass(frozen=True)
class PredictorConfig:
    """Which predictor: a name that ``eqrm.predictors`` knows, its loss and its settings.

    ``outputs`` and ``loss`` follow from the targets unless given: cross-entropy over the
    classes for whole numbers.
    """

    name: str
    loss: str | None = None
    outputs: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryConfig:
    """A memory of every domain's risk, see :class:`eqrm.RiskMemory`."""

    averaging: float = 1.0
    half_life: float | None = None
    denoise: bool = False


@dataclass(frozen=True)
class ObjectiveConfig:
    """What the run minimises, by name, with the hyperparameters that differ from its defaults."""

    name: str = "erm"
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    memory: MemoryConfig | None = None

    def __post_init__(self) -> None:
        self.make(num_domains=2)

    def make(self, num_domains: int, domain_sizes: Any = None) -> Objective:
        """The objective, with a memory for so many domains if it is to have one."""
        kind = objective_class(self.name)
        if "memory" in self.hyperparameters:
            raise SettingError(
                "memory is no hyperparameter but a field beside them: objective.memory."
            )
        if self.memory is None:
            made: Objective = kind(**self.hyperparameters)
            return made
        if not issubclass(kind, EQRM):
            raise SettingError(f"{kind.__name__} has no memory of risks; eqrm has. Leave it out.")
        memory = RiskMemory(
            num_domains, **dataclasses.asdict(self.memory), domain_sizes=domain_sizes
        )
        return kind(**self.hyperparameters, memory=memory)


@dataclass(frozen=True)
class PhaseConfig:
    """One phase. What is left out is the run's own (objective, learning rate, schedule).

    ``steps`` may be left out once: that phase takes what the others leave.
    """

    steps: int | None = None
    objective: str | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    learning_rate: float | None = None
    schedule: str | None = None
    fresh_optimizer: bool = True
    loss_scaling: str = "none"


@dataclass(frozen=True)
class RunConfig:
    """A run: data, predictor, objective, phases and how it is trained.

    Attributes:
        steps: of all phases together.
        phases: ``"recommended"`` (by the objective), ``"single"`` (the objective alone), or a
            list of phases.

    >>> config = RunConfig.read(
    ...     {
    ...         "data": {"dataset": "colored-mnist", "test": ["0.9"]},
    ...         "predictor": {"name": "mlp"},
    ...         "objective": {"name": "eqrm", "hyperparameters": {"alpha": 0.9}},
    ...         "phases": [{"objective": "erm", "steps": 400}, {"learning_rate": 1e-4}],
    ...         "steps": 600,
    ...     }
    ... )
    >>> [(phase.minimised.name, phase.steps) for phase in config.made_phases(2)]
    [('erm', 400), ('eqrm', 200)]
    >>> len(config.run_name)
    16
    """

    data: DataConfig
    predictor: PredictorConfig
    steps: int
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    phases: Literal["recommended", "single"] | list[PhaseConfig] = "recommended"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    batches: BatchConfig = field(default_factory=BatchConfig)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        self.made_phases(num_domains=2)
        rule = self.training.early_stopping
        validated = self.data.validation or self.data.validation_examples is not None
        if rule is not None and rule.split == "validation" and not validated:
            raise SettingError(
                "training.early_stopping watches validation, but data.validation names no "
                "domains. Give it some, or data.validation_examples a share."
            )

    @classmethod
    def read(cls, content: Any, changes: Sequence[str] = ()) -> RunConfig:
        """From plain YAML content, with changes of the form ``a.b=c``."""
        return read_as(cls, with_changes(content, changes))

    @classmethod
    def from_file(cls, path: str | Path, changes: Sequence[str] = ()) -> RunConfig:
        """From a YAML file."""
        return cls.read(read_yaml(Path(path)), changes)

    def made_phases(self, num_domains: int, domain_sizes: Any = None) -> tuple[Phase, ...]:
        """The phases, for data with so many domains."""
        minimised = self.objective.make(num_domains, domain_sizes)
        if self.phases == "recommended":
            return recommended_phases(minimised, self.steps, self.learning_rate, self.schedule)
        listed = [PhaseConfig()] if isinstance(self.phases, str) else self.phases
        steps = self._steps_of(listed)
        made = []
        for i, (each, number) in enumerate(zip(listed, steps, strict=True)):
            with naming_field(f"phases[{i}]"):
                made.append(self._phase(each, number, minimised, (num_domains, domain_sizes)))
        return tuple(made)

    def _phase(self, each: PhaseConfig, steps: int, own: Objective, size: tuple[int, Any]) -> Phase:
        if each.objective is None and not each.hyperparameters:
            minimised = own
        else:
            same = each.objective in (None, self.objective.name)
            hyperparameters = {
                **(self.objective.hyperparameters if same else {}),
                **each.hyperparameters,
            }
            chosen = ObjectiveConfig(
                self.objective.name if same else str(each.objective),
                hyperparameters,
                self.objective.memory if same else None,
            )
            minimised = own if same and not each.hyperparameters else chosen.make(*size)
        return Phase(
            minimised,
            steps,
            self.learning_rate if each.learning_rate is None else each.learning_rate,
            self.schedule if each.schedule is None else each.schedule,
            each.fresh_optimizer,
            each.loss_scaling,
        )

    def _steps_of(self, listed: Sequence[PhaseConfig]) -> list[int]:
        """The steps of each phase; what is left goes to the one that names none."""
        given = sum(each.steps for each in listed if each.steps is not None)
        open_ended = sum(each.steps is None for each in listed)
        if open_ended > 1:
            raise SettingError("phases: only one phase may leave out its steps.")
        left = self.steps - given
        if left < open_ended or (left != 0 and not open_ended):
            raise SettingError(
                f"phases: their steps add up to {given}, which does not fit steps: {self.steps}. "
                "Change one of them, or leave out the steps of one phase."
            )
        return [left if each.steps is None else each.steps for each in listed]

    def plain(self) -> dict[str, Any]:
        """Every field, defaults included, in plain values."""
        found: dict[str, Any] = _plain(self)
        return found

    def to_yaml(self) -> str:
        """The whole configuration; reading it back gives the same run."""
        return yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)

    @property
    def run_name(self) -> str:
        """The name of the run's folder: a hash of the whole configuration."""
        text = json.dumps(self.plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Level):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value
