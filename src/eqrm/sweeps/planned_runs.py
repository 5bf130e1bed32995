"""From a plan to its runs: the configuration of each, checked before any is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from eqrm.checks import is_integer, refuse_unknown
from eqrm.data.datasets.registry import DATASETS, dataset_settings, raw_dataset
from eqrm.data.domain_data import DomainData
from eqrm.data.splits import parts_of_domains
from eqrm.errors import SettingError
from eqrm.predictors.registry import predictor_settings
from eqrm.sweeps.plan import (
    HeldOutShare,
    PlannedDataset,
    PlannedObjective,
    Problems,
    SweepPlan,
    read_plan,
)
from eqrm.sweeps.records import RunPlace
from eqrm.sweeps.spaces import (
    HYPERPARAMETERS,
    Space,
    declared_spaces,
    drawn,
    drawn_phases,
    grid_points,
    seed_of,
    space_of,
    spaces_of_phases,
)
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.text import did_you_mean
from eqrm.training.runs.config import ObjectiveConfig, RunConfig
from eqrm.training.runs.config_reading import plain_values, read_as, with_value
from eqrm.training.runs.run import trainer_on
from eqrm.training.runs.run_data import RunData
from eqrm.training.training_settings import naming_field

DEFAULTS: dict[str, Any] = {
    "data": {"measure_training": True},
    "training": {"tensorboard": False, "domains_listed": None},
}
"""What a run of a sweep has unless the plan says otherwise: all that a record needs."""
VALIDATION = {"validation_examples": 0.2, "split_test_domains": True}
"""Unless the plan says how to validate: a fifth of every domain, test domains included."""


@dataclass(frozen=True)
class PlannedRun(RunPlace):
    """A run of a sweep: its place in the plan, and its configuration."""

    config: RunConfig


@dataclass(frozen=True)
class PlannedSweep:
    """A plan, as it was given, and all of its runs."""

    content: Mapping[str, Any]
    runs: tuple[PlannedRun, ...]

    def runs_listed(self) -> list[dict[str, Any]]:
        """The places of the runs, in plain types."""
        return [run.place() for run in self.runs]


def planned_sweep(
    content: Any,
    source: str,
    data_root: str | Path | None = None,
    folder: SweepFolder | None = None,
) -> PlannedSweep:
    """The runs of a plan in plain YAML content; an error lists all of its problems.

    Every dataset is read once, for the names of its domains, and one run per dataset and
    objective is made ready to train, so that what cannot run is found here. A ``folder`` that
    belongs to another plan is a problem too.
    """
    problems = Problems()
    plan = read_plan(content, problems)
    found: list[PlannedRun] = []
    for dataset in plan.datasets:
        names: tuple[str, ...] | None = None
        with problems.noted(dataset.called):
            names = _names_of_domains(dataset, data_root)
        for objective in plan.objectives:
            found += _runs_of(plan, dataset, objective, names, problems)
        if names is not None and not problems:
            _make_ready(dataset, found, problems, data_root)
    planned = PlannedSweep(plain_values(content), tuple(found))
    if folder is not None:
        with problems.noted():
            folder.refuse_another_plan(planned.content, None if problems else planned.runs_listed())
    problems.refuse(source)
    return planned


def _names_of_domains(dataset: PlannedDataset, root: str | Path | None) -> tuple[str, ...]:
    found = raw_dataset(dataset.name, root, **dataset.settings)
    return tuple(found.names if isinstance(found, DomainData) else found.domain_names)


def _runs_of(
    plan: SweepPlan,
    dataset: PlannedDataset,
    objective: PlannedObjective,
    names: Sequence[str] | None,
    problems: Problems,
) -> Iterator[PlannedRun]:
    """The runs of one objective on one dataset; without names, to check its configuration only."""
    where = f"{objective.called} on {dataset.called}"
    splits: list[tuple[str, ...]] = []
    with problems.noted(f"{dataset.called}: held_out"):
        splits = [()] if names is None else sets_of_test_domains(dataset, names, plan.seed)
    with problems.noted(where):
        RunConfig.read(_base(plan, dataset, objective))
    points: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for trial in range(plan.trials):
        if trial == 0 or plan.draws_per_trial:
            with problems.noted(where):
                points = _points(plan, dataset, objective, trial)
        for draw, (content, searched) in enumerate(points):
            with problems.noted(where):
                config = RunConfig.read(content)
                values = {path: value_at(config, path) for path in searched}
                for held_out in splits:
                    place = (dataset.called, objective.called, held_out, draw, trial)
                    own = _placed(config, plan, place)
                    yield PlannedRun(own.run_name, *place, values, own)


def sets_of_test_domains(
    dataset: PlannedDataset, names: Sequence[str], seed: int
) -> list[tuple[str, ...]]:
    """Every set of test domains of a dataset with these domains."""
    given = dataset.held_out
    if given == "each":
        return [(name,) for name in names]
    if given == "each-and-pairs":
        return [(name,) for name in names] + list(combinations(names, 2))
    if isinstance(given, HeldOutShare):
        shares: dict[str, Any] = {"train": None, "validation": [], "test": given.share}
        drawn_parts = (
            parts_of_domains(shares, names, seed_of(seed, "test domains", dataset.called, number))
            for number in range(given.splits)
        )
        return [tuple(names[at] for at in parts["test"]) for parts in drawn_parts]
    sets = [
        tuple(str(name) for name in (each if isinstance(each, list) else [each])) for each in given
    ]
    for name in sorted({name for each in sets for name in each} - set(names)):
        raise SettingError(f"the domain {name!r} does not exist. {did_you_mean(name, names)}")
    for each in sets:
        if not each or len(set(each)) < len(each) or sets.count(each) > 1:
            raise SettingError(f"{list(each)} is empty, is listed twice, or lists a domain twice.")
    return sets


def _base(plan: SweepPlan, dataset: PlannedDataset, objective: PlannedObjective) -> dict[str, Any]:
    """The configuration of a pair of dataset and objective, before draws, splits and seeds."""
    content = _merged(_merged(DEFAULTS, plan.run), dataset.run)
    data = content["data"]
    if isinstance(data, dict):
        if not {"validation", "validation_examples", "split_test_domains"} & set(data):
            data = {**VALIDATION, **data}
        own = {"dataset": DATASETS.name_of(dataset.name), "settings": dict(dataset.settings)}
        content["data"] = {**data, **own}
    content["objective"] = objective.content()
    if objective.phases is not None:
        content["phases"] = objective.phases
    return content


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The second over the first, field by field inside of fields."""
    both = {
        key: _merged(first[key], value)
        for key, value in second.items()
        if isinstance(value, Mapping) and isinstance(first.get(key), Mapping)
    }
    return {**first, **second, **both}


def _points(
    plan: SweepPlan, dataset: PlannedDataset, objective: PlannedObjective, trial: int
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every draw, or every point of the grid: a configuration, and the fields that are searched."""
    base = _base(plan, dataset, objective)
    if plan.has_grid:
        own = {f"{HYPERPARAMETERS}.{name}": each for name, each in objective.grid.items()}
        points = grid_points({**plan.grid, **own})
        return [(_changed(base, point, "grid"), point) for point in points]
    minimised = read_as(ObjectiveConfig, base["objective"], "objective").make(num_domains=2)
    spaces = {path: space_of(given, f"search.{path}") for path, given in plan.search.items()}
    spaces |= declared_spaces(minimised, objective.hyperparameters)
    spaces |= {
        f"{HYPERPARAMETERS}.{name}": space_of(given, f"search.{name}")
        for name, given in objective.search.items()
    }
    phases = [plain_values(phase) for phase in minimised.recommended_phases()]
    of_phases = (
        spaces_of_phases(minimised) if base.get("phases", "recommended") == "recommended" else {}
    )
    searched = {**spaces, **of_phases} if (plan.draws or 1) > 1 else {}
    key = (plan.seed, dataset.called, objective.called, *([trial] if plan.draws_per_trial else []))
    found = [(base, dict(searched))]
    for draw in range(1, plan.draws or 1):
        content = _changed(base, drawn(spaces, (*key, draw)), "search")
        if of_phases:
            values = _phases_drawn(of_phases, (*key, draw), phases, content.get("steps"))
            content = _changed({**content, "phases": phases}, values, "search")
        found.append((content, dict(searched)))
    return found


def _phases_drawn(
    spaces: Mapping[str, Space], key: Sequence[object], phases: Sequence[Any], steps: Any
) -> dict[str, Any]:
    fixed = sum(
        phase["steps"] or 0
        for number, phase in enumerate(phases)
        if f"phases.{number}.steps" not in spaces
    )
    if not is_integer(steps):
        raise SettingError(f"run.steps must be an integer, got {steps!r}.")
    return drawn_phases(spaces, key, fixed, int(steps))


def _changed(content: Any, values: Mapping[str, Any], source: str) -> Any:
    for path, value in values.items():
        content = with_value(content, path, value, f"{source}.{path}")
    return content


def _placed(
    config: RunConfig, plan: SweepPlan, place: tuple[str, str, tuple[str, ...], int, int]
) -> RunConfig:
    """The configuration of a run: its test domains, and its seeds.

    The examples for validation depend on dataset and trial only, so that runs are compared on
    the same examples; weights and batches differ from run to run.
    """
    dataset, _, held_out, _, trial = place
    split = seed_of(plan.seed, "examples", dataset, trial)
    with naming_field("data"):
        data = replace(config.data, test=list(held_out), seed=split)
    seed = seed_of(plan.seed, "training", *place)
    return replace(config, data=data, training=replace(config.training, seed=seed))


def value_at(config: RunConfig, path: str) -> Any:
    """The value of a field in a configuration, or the default that it stands for, in plain types.

    >>> config = RunConfig.read(
    ...     {"data": {"dataset": "flights"}, "predictor": {"name": "mlp"}, "steps": 10}
    ... )
    >>> value_at(config, "learning_rate"), value_at(config, "predictor.settings.width")
    (0.001, 64)
    """
    first, _, name = path.rpartition(".")
    inside: Any
    if first == HYPERPARAMETERS:
        return plain_values(getattr(config.objective.make(num_domains=2), name))
    if first == "predictor.settings":
        inside = {**predictor_settings(config.predictor.name), **config.predictor.settings}
    elif first == "data.settings":
        inside = {**dataset_settings(config.data.dataset), **config.data.settings}
    elif first.startswith("phases."):
        inside = vars(config.made_phases(num_domains=2)[int(first.removeprefix("phases."))])
    else:
        inside = config.plain()
        for part in first.split(".") if first else []:
            inside = inside.get(part) if isinstance(inside, Mapping) else None
    refuse_unknown([name], inside if isinstance(inside, Mapping) else (), first or "run", "field")
    return plain_values(inside[name])


def _make_ready(
    dataset: PlannedDataset,
    runs: Sequence[PlannedRun],
    problems: Problems,
    root: str | Path | None,
) -> None:
    """Make the first run of every objective on a dataset ready to train; nothing is written."""
    first: dict[str, PlannedRun] = {}
    for run in runs:
        if run.dataset == dataset.called:
            first.setdefault(run.objective, run)
    data: RunData | None = None
    for run in first.values():
        with problems.noted(f"{run.objective} on {run.dataset}"):
            data = data or RunData.read(run.config.data, root)
            trainer_on(run.config, data, "runs")
