"""The configurations of one objective, or table model, on one dataset: what is fixed, what varies.

Fields that vary have spaces to be drawn from, or values of a grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from eqrm.checks import integer, refuse_unknown
from eqrm.data.datasets.registry import DATASETS
from eqrm.errors import SettingError
from eqrm.files.plain import plain_values, read_as, with_value
from eqrm.objectives.hyperparameters import LogUniformSpace
from eqrm.predictors.registry import predictor_settings
from eqrm.sweeps.plan import PlannedDataset, PlannedObjective, SweepPlan
from eqrm.sweeps.protocols import domainbed_run, names_of, protocol_spaces
from eqrm.sweeps.spaces import (
    HYPERPARAMETERS,
    Space,
    drawn,
    drawn_phases,
    space_of,
)
from eqrm.sweeps.table_runs import (
    SPACES,
    AnyRunConfig,
    PlannedModel,
    TableRunConfig,
    read_run_config,
    setting_path,
)
from eqrm.training.runs.config import ObjectiveConfig

DEFAULTS: dict[str, Any] = {
    "data": {"measure_training": True},
    "training": {"tensorboard": False, "domains_listed": None},
}
"""What a run of a sweep has unless the plan says otherwise: all that a record needs."""
VALIDATION = {"validation_examples": 0.2, "split_test_domains": True}
"""Unless the plan says how to validate: a fifth of every domain, test domains included."""
DRAWS_CHECKED = 10
"""Random draws that are checked of each objective whose draws are proposed while it is trained."""
Method = PlannedObjective | PlannedModel
"""What is compared in a sweep: the column ``objective`` of its records."""


@dataclass(frozen=True)
class Configurations:
    """The configurations of a pair of dataset and method, before splits and seeds.

    ``base`` is what is fixed, in plain content; ``spaces`` are those of fields that are drawn,
    ``phase_spaces`` those of the objective's recommended phases, where they are drawn too.
    """

    base: Mapping[str, Any]
    spaces: Mapping[str, Space] = field(default_factory=dict)
    phases: Sequence[Any] = ()
    phase_spaces: Mapping[str, Space] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: SweepPlan, dataset: PlannedDataset, method: Method) -> Configurations:
        base = base_configuration(plan, dataset, method)
        if isinstance(method, PlannedModel):
            grid = {setting_path(name): values for name, values in method.grid.items()}
            declared = {k: v for k, v in SPACES[method.name].items() if k not in method.settings}
            own = {k: space_of(given, f"search.{k}") for k, given in method.search.items()}
            spaces = {setting_path(name): each for name, each in (declared | own).items()}
            return cls(base, spaces, grid=grid)
        grid = plan.grid | {f"{HYPERPARAMETERS}.{name}": each for name, each in method.grid.items()}
        minimised = read_as(ObjectiveConfig, base["objective"], "objective").make(num_domains=2)
        spaces = {path: space_of(given, f"search.{path}") for path, given in plan.search.items()}
        spaces |= {
            f"{HYPERPARAMETERS}.{name}": declared.space
            for name, declared in minimised.hyperparameters.items()
            if declared.space is not None and name not in method.hyperparameters
        }
        spaces |= protocol_spaces(plan, dataset, method, base)
        spaces |= {
            f"{HYPERPARAMETERS}.{name}": space_of(given, f"search.{name}")
            for name, given in method.search.items()
        }
        phases = minimised.recommended_phases()
        recommended = base.get("phases", "recommended") == "recommended"
        phase_spaces = {
            f"phases.{number}.{name}": space
            for number, phase in enumerate(phases if recommended else ())
            for name, space in phase.search.items()
        }
        return cls(base, spaces, [plain_values(phase) for phase in phases], phase_spaces, grid)

    def drawn(self, key: Sequence[object]) -> dict[str, Any]:
        values = drawn(self.spaces, key)
        if self.phase_spaces:
            steps: Any = values.get("steps", self.base.get("steps"))
            integer().check(steps, "run.steps")
            values |= drawn_phases(self.phase_spaces, key, self._fixed_steps(), steps)
        return values

    def content(self, values: Mapping[str, Any], source: str = "search") -> dict[str, Any]:
        """The configuration with these values, in plain content."""
        content = dict(self.base)
        if any(path in self.phase_spaces for path in values):
            content["phases"] = list(self.phases)
        for path, value in values.items():
            content = with_value(content, path, value, f"{source}.{path}")
        return content

    def spaces_that_fit(self) -> dict[str, Space]:
        """The spaces of all fields that are drawn, for a search that does not draw again.

        Lengths of phases are limited such that each leaves a step for the last phase.
        """
        found = {**self.spaces, **self.phase_spaces}
        lengths = [path for path in self.phase_spaces if path.endswith(".steps")]
        if lengths and "steps" in self.spaces:
            raise SettingError(
                "adaptive cannot search steps together with the lengths of recommended phases. "
                "Use phases: single, or fix run.steps."
            )
        if lengths:
            steps: Any = self.base.get("steps")
            integer().check(steps, "run.steps")
            most = (steps - self._fixed_steps() - 1) // len(lengths)
            for path in lengths:
                found[path] = _at_most(found[path], most, path)
        return found

    def _fixed_steps(self) -> int:
        """The steps of the recommended phases that are not drawn."""
        return sum(
            phase["steps"] or 0
            for number, phase in enumerate(self.phases)
            if f"phases.{number}.steps" not in self.phase_spaces
        )


def base_configuration(plan: SweepPlan, dataset: PlannedDataset, method: Method) -> dict[str, Any]:
    """The configuration of a pair of dataset and method, before draws, splits and seeds."""
    content: dict[str, Any] = DEFAULTS
    if isinstance(method, PlannedObjective) and plan.protocol is not None:
        content = _merged(content, domainbed_run(*names_of(dataset, method)))
    content = _merged(_merged(content, plan.run), dataset.run)
    data = content["data"]
    if isinstance(data, dict):
        if not {"validation", "validation_examples", "split_test_domains"} & set(data):
            data = {**VALIDATION, **data}
        own = {"dataset": DATASETS.name_of(dataset.name), "settings": dict(dataset.settings)}
        content["data"] = {**data, **own}
    if isinstance(method, PlannedModel):
        return {"data": content["data"], **method.content()}
    content["objective"] = method.content()
    if method.phases is not None:
        content["phases"] = method.phases
    return content


def points_of(
    plan: SweepPlan, dataset: PlannedDataset, method: Method, trial: int
) -> list[tuple[AnyRunConfig, dict[str, Any]]]:
    """Every draw, or every point of the grid: a configuration, and what was searched of it."""
    known = Configurations.of(plan, dataset, method)
    if plan.has_grid:
        grid = known.grid  # the last field changes fastest
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [_point(known.content(point, "grid"), point) for point in points]
    draws = plan.draws or 1
    if plan.adaptive is not None:
        known.spaces_that_fit()
        draws = min(draws, DRAWS_CHECKED)
    searched = (*known.spaces, *known.phase_spaces) if draws > 1 else ()
    key = (plan.seed, dataset.called, method.called, *([trial] if plan.draws_per_trial else []))
    values = [{}, *(known.drawn((*key, draw)) for draw in range(1, draws))]
    return [_point(known.content(each), searched) for each in values]


def _point(
    content: Mapping[str, Any], searched: Iterable[str]
) -> tuple[AnyRunConfig, dict[str, Any]]:
    config = read_run_config(content)
    return config, {path: value_at(config, path) for path in searched}


def value_at(config: AnyRunConfig, path: str) -> Any:
    """The plain value of a field in a configuration, or the default that it stands for."""
    first, _, name = path.rpartition(".")
    inside: Any
    if isinstance(config, TableRunConfig):
        inside = {**PlannedModel(config.model).estimator_settings, **config.settings}
        inside = inside if first == "settings" else config.plain()
    elif first == HYPERPARAMETERS:
        return plain_values(getattr(config.objective.make(num_domains=2), name))
    elif first == "predictor.settings":
        inside = {**predictor_settings(config.predictor.name), **config.predictor.settings}
    elif first.startswith("phases."):
        inside = vars(config.made_phases(num_domains=2)[int(first.removeprefix("phases."))])
    else:
        inside = config.plain()
        for part in first.split(".") if first else []:
            inside = inside.get(part) if isinstance(inside, Mapping) else None
    refuse_unknown([name], inside if isinstance(inside, Mapping) else (), first or "run", "field")
    return plain_values(inside[name])


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The second over the first, field by field inside of fields."""
    both = {
        key: _merged(first[key], value)
        for key, value in second.items()
        if isinstance(value, Mapping) and isinstance(first.get(key), Mapping)
    }
    return {**first, **second, **both}


def _at_most(space: Space, most: int, path: str) -> Space:
    """A space of integers without what is above ``most``."""
    if isinstance(space, LogUniformSpace):
        highest = math.log(max(most, 1), space.base)
        if highest > space.low:
            return replace(space, high=min(space.high, highest))
    raise SettingError(
        f"The recommended phases ({path}) do not fit into the run's steps. Train longer, or use "
        "phases: single."
    )
