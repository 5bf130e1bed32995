"""Runs that fit a model of a table (linear, MLP, XGBoost, LightGBM), with the records of networks.

A fit is measured once, on the splits that networks are measured on: its record has one checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.checks import (
    SEED,
    Rule,
    check_fields,
    number,
    one_of,
    optional,
    refuse_unknown,
    ruled,
)
from eqrm.data.domain_data import DomainData
from eqrm.data.tables.preprocessor import Task
from eqrm.domains import NumberedDomains
from eqrm.errors import SettingError
from eqrm.estimators.model_files import ESTIMATORS
from eqrm.files.plain import read_as
from eqrm.files.writing import write_text
from eqrm.level import Level
from eqrm.objectives.hyperparameters import (
    ChoiceSpace,
    LogUniformSpace,
    SearchSpace,
    UniformSpace,
)
from eqrm.tabular.model import TableModel, new_estimator, save_table_model
from eqrm.tabular.plan import DECIDED, MODELS
from eqrm.training.runs.config import DataConfig, NamedConfig, RunConfig
from eqrm.training.runs.run_data import RunData

MODEL = "model.safetensors"
GOAL = ("alpha", "measure")
"""What of a model is not a setting of its estimator alone."""
LABEL = optional(Rule("printable text", lambda label: bool(label.strip()) and label.isprintable()))
"""What a plan may call its datasets and methods in records."""
STEP = 1
_TREES: dict[str, SearchSpace[Any]] = {
    "n_estimators": LogUniformSpace(10, 1.5, 2.7, integer=True),
    "learning_rate": LogUniformSpace(10, -2, -0.5),
    "max_depth": ChoiceSpace((2, 3, 4, 5, 6, 7, 8)),
    "subsample": UniformSpace(0.5, 1.0),
    "colsample_bytree": UniformSpace(0.5, 1.0),
    "reg_lambda": LogUniformSpace(10, -2, 2),
}
SPACES: dict[str, dict[str, SearchSpace[Any]]] = {
    "linear": {"l2": LogUniformSpace(10, -6, -1)},
    "mlp": {
        "l2": LogUniformSpace(10, -6, -1),
        "learning_rate": LogUniformSpace(10, -3.5, -1.5),
        "hidden": ChoiceSpace(([64], [128], [64, 64])),
    },
    "xgboost": _TREES,
    "lightgbm": _TREES,
}
"""Where settings that a plan does not fix are drawn from, by model."""


@dataclass(frozen=True)
class TableRunConfig(NamedConfig):
    """The configuration of a fit; ``alpha`` None is ERM, the mean of the domains' risks."""

    data: DataConfig
    model: str
    alpha: float | str | None = None
    measure: str = "quantile"
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(self.model, MODELS, "table model")
        SEED.check(self.seed, "seed")
        estimator = self.estimator(Task(("0", "1")))
        estimator._checked_goal()
        for name in getattr(estimator, "_passed_on", ()):  # to a library, which checks it in fits
            optional(number()).check(getattr(estimator, name), name)

    @property
    def level(self) -> Level | None:
        """The level that is trained for; None is ERM."""
        return None if self.alpha is None else Level.of(self.alpha)

    def estimator(self, task: Task) -> Any:
        return new_estimator(self.model, task, self.level, self.seed, self.settings, self.measure)


AnyRunConfig = RunConfig | TableRunConfig


def read_run_config(content: Mapping[str, Any]) -> AnyRunConfig:
    """The configuration of a run in plain content: of a table model if it names one."""
    return read_as(TableRunConfig, content) if "model" in content else RunConfig.read(content)


@dataclass(frozen=True)
class PlannedModel:
    """A table model of a plan (docs/sweeps.md)."""

    name: str
    label: str | None = ruled(None, LABEL)
    alpha: float | str | None = None
    measure: str = "quantile"
    settings: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        one_of(self.name, MODELS, "table model")
        read_as(TableRunConfig, {"data": {"dataset": "table"}, **self.content()})
        known = (*self.estimator_settings, *GOAL)
        for where, given in (("search", self.search), ("grid", self.grid)):
            refuse_unknown(given, known, f"{where} of {self.called}", "setting")
            fixed = {*self.settings, *(["alpha"] if self.alpha is not None else [])}
            for both in sorted(set(given) & fixed):
                raise SettingError(
                    f"{both!r} has a fixed value and is in {where}. Remove it from one of them."
                )

    @property
    def called(self) -> str:
        return self.label or self.name

    @property
    def estimator_settings(self) -> dict[str, Any]:
        """The settings of the estimator, with their defaults."""
        return ESTIMATORS.settings(MODELS[self.name][0], DECIDED)

    def content(self) -> dict[str, Any]:
        """The configuration of a run but for its data, before anything is drawn."""
        goal = {name: getattr(self, name) for name in GOAL}
        return {"model": self.name, **goal, "settings": dict(self.settings)}


def setting_path(name: str) -> str:
    """Where a setting of a table model stands in the configuration of its run."""
    return name if name in GOAL else f"settings.{name}"


def ready_estimator(config: TableRunConfig, data: RunData) -> Any:
    """The estimator of a run; what cannot be fitted is refused before anything is trained."""
    if data.preprocessor is None:
        raise SettingError(
            f"{config.model} is a model of tables, and the dataset {config.data.dataset!r} is not "
            "a table. Use objectives with a network there."
        )
    estimator = config.estimator(data.preprocessor.task)
    if config.model in ("xgboost", "lightgbm"):
        estimator._import_library()
    return estimator


def fit_table_run(
    config: TableRunConfig,
    folder: Path,
    data_root: str | Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Fit the model of a run and write it to its folder; the one checkpoint of its record."""
    data = RunData.read(config.data, data_root)
    estimator = ready_estimator(config, data)
    for note in data.train.notes:
        tell(note)
    x, y, domains = _arrays(data.train)
    estimator.fit(x, y, groups=domains)
    write_text(folder / "config.yaml", config.to_yaml())
    if data.preprocessor is not None:
        model = TableModel(estimator, data.preprocessor, config.level, data.seen())
        save_table_model(model, folder / MODEL)
    found: dict[str, Any] = {"step": STEP, "risks": {}, "accuracies": {}}
    for split, part in data.held_out.items():
        x, y, domains = _arrays(part)
        measured = estimator.measured_risks(x, y, domains)
        found["risks"][split] = dict(zip(measured.domains, measured.risks.tolist(), strict=True))
        if hasattr(estimator, "classes_"):
            hits = np.bincount(domains.ids, estimator.predict(x) == y, len(domains.names))
            shares = hits / np.bincount(domains.ids, minlength=len(domains.names))
            found["accuracies"][split] = dict(zip(domains.names, shares.tolist(), strict=True))
    return [found]


def _arrays(data: DomainData) -> tuple[Any, Any, NumberedDomains]:
    return data.x.numpy(), data.y.numpy(), NumberedDomains(data.domains.numpy(), data.names)
