"""The configuration of a run, as a YAML file holds it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from eqrm import checks
from eqrm.data.batches import SamplerSettings
from eqrm.data.datasets.registry import DATASETS
from eqrm.errors import Setting, SettingError
from eqrm.files.plain import plain_values, read_as, with_value
from eqrm.files.yaml_text import parse_settings, read_yaml
from eqrm.objectives.base import LEARNING_RATE, Objective, Phase, objective_class
from eqrm.objectives.risk_based import EQRM
from eqrm.objectives.risk_memory import MemorySettings, RiskMemory
from eqrm.predictors.registry import PREDICTORS
from eqrm.text import printable
from eqrm.training.phases import completed_phases, recommended_phases
from eqrm.training.training_settings import ADDED, TrainingSettings

Names = list[str | int | float]
STEPS, EPOCHS = "steps", "epochs"
UNITS = (STEPS, EPOCHS)
ANY_EPOCH = 10_000
"""Steps of an epoch, where a configuration is checked without its data."""
DOMAINS = checks.Rule(
    "a list of domains, or a share of them: a number strictly between 0 and 1",
    lambda given: isinstance(given, list) or checks.OPEN_FRACTION.holds(given),
)


@dataclass(frozen=True)
class DataConfig:
    """Which data, and which domains are kept apart (docs/training.md).

    With ``split_test_domains`` the examples that are held out do not depend on which domains are
    test domains.
    """

    dataset: str
    settings: dict[str, Any] = field(default_factory=dict)
    train: Names | None = None
    validation: Names | float = field(default_factory=list, metadata={"rule": DOMAINS})
    test: Names | float = field(default_factory=list, metadata={"rule": DOMAINS})
    validation_examples: float | None = checks.ruled(None, checks.optional(checks.OPEN_FRACTION))
    seed: int = checks.ruled(0, checks.SEED)
    split_test_domains: bool = field(default=False, metadata=ADDED)
    measure_training: bool = field(default=False, metadata=ADDED)
    leave_out: Names | None = field(default=None, metadata=ADDED)

    def __post_init__(self) -> None:
        used: dict[str, str] = {}
        for part in ("train", "validation", "test", "leave_out"):
            given = getattr(self, part)
            for name in given if isinstance(given, list) else []:
                key = str(name)
                if used.get(key) == part:
                    raise SettingError(f"{part} lists the domain {key!r} twice. List it once.")
                if key in used:
                    raise SettingError(
                        f"the domain {key!r} is in {used[key]} and in {part}. Each domain can be "
                        "in only one part: remove it from the other."
                    )
                used[key] = part
        checks.check_fields(self)
        DATASETS.check(self.settings)
        if self.validation_examples is not None and self.validation:
            raise SettingError("give validation or validation_examples, not both.")
        if self.split_test_domains and self.validation_examples is None:
            raise SettingError("split_test_domains needs validation_examples, the share.")


@dataclass(frozen=True)
class PredictorConfig:
    """Which predictor; ``outputs`` and ``loss`` follow from the targets unless given."""

    name: str
    loss: str | None = None
    outputs: int | None = checks.ruled(None, checks.optional(checks.COUNT))
    settings: dict[str, Any] = field(default_factory=dict)
    start_from: str | None = field(default=None, metadata=ADDED)

    def __post_init__(self) -> None:
        checks.check_fields(self)
        PREDICTORS.check(self.settings)


@dataclass(frozen=True)
class ObjectiveConfig:
    """What the run minimises, by name, with the hyperparameters that differ from its defaults."""

    name: str = "erm"
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    memory: MemorySettings | None = None
    preset: str | None = field(default=None, metadata=ADDED)

    def __post_init__(self) -> None:
        self.make(num_domains=2)

    def make(self, num_domains: int, domain_sizes: Any = None) -> Objective:
        """The objective, with a memory for this many domains if configured."""
        kind = objective_class(self.name, self.preset)
        if "memory" in self.hyperparameters:
            raise SettingError(
                "memory is not a hyperparameter but a field beside them: objective.memory."
            )
        if self.memory is None:
            return kind(**self.hyperparameters)
        if not issubclass(kind, EQRM):
            raise SettingError(
                f"{kind.__name__} has no memory of risks; eqrm and superquantile have one. Leave "
                "memory out."
            )
        memory = RiskMemory(num_domains, **asdict(self.memory), domain_sizes=domain_sizes)
        return kind(**self.hyperparameters, memory=memory)


class NamedConfig:
    """The configuration of a run, whose folder is named after it."""

    def plain(self) -> dict[str, Any]:
        """Every field, defaults included (except of fields added later), in plain values."""
        return dict(plain_values(self))

    @property
    def run_name(self) -> str:
        """The name of the run's folder: a hash of the whole configuration."""
        text = json.dumps(self.plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_yaml(self) -> str:
        """The whole configuration; reading it back gives the same run."""
        text = yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True)
        if printable(text) == text:
            return text
        # With control characters in a name, all that is not ASCII is written as YAML's escapes.
        return yaml.safe_dump(self.plain(), sort_keys=False)


@dataclass(frozen=True)
class RunConfig(NamedConfig):
    """A run: data, predictor, objective, phases and how it is trained (docs/training.md)."""

    data: DataConfig
    predictor: PredictorConfig
    steps: int = field(metadata={"rule": checks.COUNT})
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    phases: Literal["recommended", "single"] | list[Phase] = "recommended"
    learning_rate: float = checks.ruled(LEARNING_RATE, checks.POSITIVE)
    schedule: str = "constant"
    batches: SamplerSettings = field(default_factory=SamplerSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    unit: str = field(default=STEPS, metadata=ADDED)

    def __post_init__(self) -> None:
        checks.check_fields(self)
        checks.one_of(self.unit, UNITS, "unit")
        for number, phase in enumerate(self.phases if isinstance(self.phases, list) else []):
            if isinstance(phase.objective, Objective):
                raise SettingError(f"phases[{number}].objective must be a name in a configuration.")
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
        """From plain YAML content, with changes of the form ``a.b=c``; c is YAML."""
        for path, value in parse_settings(changes).items():
            content = with_value(content, path, value, f"{Setting('set')} {path}")
        return read_as(cls, content)

    @classmethod
    def from_file(cls, path: str | Path, changes: Sequence[str] = ()) -> RunConfig:
        return cls.read(read_yaml(Path(path)), changes)

    def made_phases(
        self, num_domains: int, domain_sizes: Any = None, steps_per_unit: int | None = None
    ) -> tuple[Phase, ...]:
        """The phases in steps, for data with this many domains.

        Without ``steps_per_unit``, epochs have some length, which is not that of the data.
        """
        if steps_per_unit is None:
            steps_per_unit = 1 if self.unit == STEPS else ANY_EPOCH
        minimised = self.objective.make(num_domains, domain_sizes)
        own = self.steps * steps_per_unit, self.learning_rate, self.schedule
        if self.phases == "recommended":
            return recommended_phases(minimised, *own)
        listed = [Phase()] if isinstance(self.phases, str) else self.phases
        in_steps = [
            each if each.steps is None else replace(each, steps=each.steps * steps_per_unit)
            for each in listed
        ]
        return completed_phases(in_steps, minimised, *own)

    def training_in_steps(self, steps_per_unit: int) -> TrainingSettings:
        """The settings of training with intervals in steps."""
        own, per_unit = self.training, steps_per_unit
        evaluate, save = own.evaluate_every, own.checkpoint_every
        return replace(
            own,
            evaluate_every=None if evaluate is None else evaluate * per_unit,
            checkpoint_every=None if save is None else save * per_unit,
        )
