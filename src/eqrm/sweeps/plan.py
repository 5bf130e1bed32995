"""A plan: datasets × objectives × held-out domains × hyperparameters × trials, as YAML holds it.

Table models are listed beside objectives, and take their place in records.

This module reads a plan and checks what it says by itself; ``eqrm.sweeps.planned_runs`` turns it
into runs. All problems are collected, so that a user sees them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from eqrm.checks import (
    SEED,
    Problems,
    Rule,
    check_fields,
    integer,
    one_of,
    optional,
    refuse_unknown,
    ruled,
)
from eqrm.data.datasets.registry import DATASETS
from eqrm.data.splits import MOST, HeldOutInTime, HeldOutShare
from eqrm.errors import SettingError
from eqrm.files.plain import read_as
from eqrm.objectives.base import objective_class
from eqrm.objectives.registry import OBJECTIVES
from eqrm.sweeps.optuna_study import AdaptiveSettings
from eqrm.sweeps.spaces import grid_values, space_of
from eqrm.sweeps.table_runs import PlannedModel
from eqrm.training.runs.config import ObjectiveConfig

T = TypeVar("T")
HELD_OUT = ("each", "each-and-pairs")
SET_BY_THE_PLAN = {
    "data": ("dataset", "settings", "test", "leave_out", "seed"),
    "training": ("seed",),
    "batches": ("seed",),
}
"""Fields of a configuration that ``run``, ``search`` and ``grid`` cannot hold."""
_COUNT = integer(1, MOST)
EMPTY_GRID = "{} has no fields. List values of some, or leave it out."
_LABEL = Rule("printable text", lambda label: bool(label.strip()) and label.isprintable())


@dataclass(frozen=True)
class PlannedDataset:
    """A dataset of a plan.

    Attributes:
        name: as ``eqrm data list`` shows it, with its ``settings``.
        held_out: which domains are test domains: ``each`` alone; ``each-and-pairs``, which
            leave-one-domain-out selection needs; a list of names, or of lists of names; random
            sets (``share``, ``splits``); or later ones (``after``, ``last``, ``origins``, …).
        label: what records call it; its name unless given.
        run: fields of the configuration that are this dataset's own, such as its predictor.
    """

    name: str
    held_out: str | list[Any] | HeldOutShare | HeldOutInTime = "each"
    label: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        DATASETS.name_of(self.name)
        if isinstance(self.held_out, str):
            one_of(self.held_out, HELD_OUT, "choice of held_out")
        if isinstance(self.held_out, list) and not self.held_out:
            raise SettingError("held_out lists no domains. Name some, or leave it out.")
        refuse_fields_of_the_plan(self.run)

    @property
    def called(self) -> str:
        """What records call it."""
        return self.label or DATASETS.name_of(self.name)


@dataclass(frozen=True)
class PlannedObjective:
    """An objective of a plan.

    Attributes:
        name: a name that ``eqrm.objectives`` knows.
        label: what records call it; its name unless given.
        hyperparameters: fixed values. The others are drawn from the spaces that the objective
            declares, or stay at their defaults in a grid.
        memory, phases, preset: as in the configuration of a run.
        search: spaces of hyperparameters by name, in place of the declared ones.
        grid: values of hyperparameters by name.
    """

    name: str
    label: str | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None
    phases: str | list[Any] | None = None
    search: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None

    def __post_init__(self) -> None:
        read_as(ObjectiveConfig, self.content())
        known = objective_class(self.name, self.preset).hyperparameters
        for where, given in (("search", self.search), ("grid", self.grid)):
            refuse_unknown(given, known, f"{where} of {self.called}", "hyperparameter")
            both = sorted(set(given) & set(self.hyperparameters))
            if both:
                raise SettingError(
                    f"{both[0]!r} is in hyperparameters and in {where}. Remove it from one of them."
                )

    @property
    def called(self) -> str:
        """What records call it."""
        return self.label or OBJECTIVES.name_of(self.name)

    def content(self) -> dict[str, Any]:
        """The field ``objective`` of a run's configuration, before anything is drawn."""
        made: dict[str, Any] = {"name": OBJECTIVES.name_of(self.name)}
        if self.hyperparameters:
            made["hyperparameters"] = dict(self.hyperparameters)
        if self.memory is not None:
            made["memory"] = dict(self.memory)
        if self.preset is not None:
            made["preset"] = self.preset
        return made


@dataclass(frozen=True)
class SweepPlan:
    """What a plan says.

    Attributes:
        datasets, objectives, models: every dataset with every objective and table model.
        run: the configuration that all runs share (``eqrm train-network``).
        seed: of draws, splits and trials.
        draws: draws of hyperparameters; draw 0 is the defaults. None where there is a grid.
        trials: repetitions with other splits, first weights and batches.
        draws_per_trial: whether every trial has draws of its own.
        search: spaces of fields of the configuration, such as ``learning_rate``.
        grid: values of fields; every combination is run.
        adaptive: how draws are proposed from the results of earlier ones; None draws at random.
        protocol: the name of what fills in the rest (``eqrm.sweeps.protocols``).
    """

    datasets: tuple[PlannedDataset, ...]
    objectives: tuple[PlannedObjective, ...]
    run: Mapping[str, Any]
    seed: int = 0
    draws: int | None = None
    trials: int = 1
    draws_per_trial: bool = False
    search: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[PlannedModel, ...] = ()
    adaptive: AdaptiveSettings | None = None
    protocol: str | None = None

    @property
    def methods(self) -> tuple[PlannedObjective | PlannedModel, ...]:
        """Objectives, then table models."""
        return (*self.objectives, *self.models)

    @property
    def has_grid(self) -> bool:
        """Whether the points of a grid are run instead of random draws."""
        return bool(self.grid) or any(each.grid for each in self.methods)


@dataclass(frozen=True)
class _Numbers:
    """The fields of a plan that are plain values."""

    seed: int = ruled(0, SEED)
    draws: int | None = ruled(None, optional(_COUNT))
    trials: int = ruled(1, _COUNT)
    draws_per_trial: bool = False
    protocol: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class PlanProblems(Problems):
    """What is wrong with a plan, each problem once."""

    def read(self, kind: type[T], content: Any, where: str = "") -> T | None:
        """What the content says; None if something in it is refused, and all of that is noted."""
        with self.noted():
            return read_as(kind, content, where)
        return None


LISTS = ("datasets", "objectives", "models")
FIELDS = (*LISTS, "run", *_Numbers.__dataclass_fields__, "search", "grid", "adaptive")


def read_plan(content: Any, problems: PlanProblems) -> SweepPlan:
    """The plan in plain YAML content; what is wrong is noted, and left out of the plan."""
    if not isinstance(content, Mapping):
        problems.note("A plan must hold fields (name: value) such as datasets, objectives and run.")
        return SweepPlan((), (), {})
    with problems.noted():
        refuse_unknown(map(str, content), FIELDS, "The plan", "field")
    datasets = _entries(PlannedDataset, content, "datasets", problems)
    objectives = _entries(PlannedObjective, content, "objectives", problems, also="models")
    models = _entries(PlannedModel, content, "models", problems, also="objectives")
    lists: dict[str, Sequence[PlannedDataset | PlannedObjective | PlannedModel]]
    lists = {"datasets": datasets, "objectives": objectives, "models": models}
    for name, called in {k: [each.called for each in v] for k, v in lists.items()}.items():
        for twice in sorted({each for each in called if called.count(each) > 1}):
            problems.note(f"{name} lists {twice!r} twice. Give each a label of its own.")
    for both in sorted({each.called for each in objectives} & {each.called for each in models}):
        problems.note(f"objectives and models both list {both!r}. Give each a label of its own.")
    plain = {k: v for k, v in content.items() if k in _Numbers.__dataclass_fields__}
    numbers = problems.read(_Numbers, plain) or _Numbers()
    mappings: dict[str, Any] = {
        name: _mapping(content, name, problems) for name in ("run", "search", "grid")
    }
    with problems.noted("run"):
        refuse_fields_of_the_plan(mappings["run"])
    if content.get("grid") == {}:
        problems.note(EMPTY_GRID.format("grid"))
    for name in ("search", "grid"):
        held = [path for path in mappings[name] if _is_set_by_the_plan(path)]
        mappings[name] = {k: v for k, v in mappings[name].items() if k not in held}
        with problems.noted(name):
            _refuse_held(name, held)
    adaptive = None
    if content.get("adaptive") is not None:
        adaptive = problems.read(AdaptiveSettings, content["adaptive"], "adaptive")
    plan = SweepPlan(
        datasets, objectives, **vars(numbers), **mappings, models=models, adaptive=adaptive
    )
    _check_spaces(plan, problems)
    _check_adaptive(plan, problems)
    return plan


def refuse_fields_of_the_plan(run: Mapping[str, Any]) -> None:
    """Refuse the fields of ``run`` that differ between runs."""
    inside = {part: run.get(part) for part in SET_BY_THE_PLAN}
    _refuse_held(
        "run",
        ["objective"] * ("objective" in run)
        + [
            f"{part}.{name}"
            for part, names in SET_BY_THE_PLAN.items()
            for name in names
            if isinstance(held := inside[part], Mapping) and name in held
        ],
    )


def _is_set_by_the_plan(path: str) -> bool:
    """Whether a path (``a.b``) is, holds or is inside of a field that the plan sets."""
    first, _, rest = path.partition(".")
    name = rest.partition(".")[0]
    if first == "objective":
        return name not in ("hyperparameters", "memory") or name == rest
    return first in SET_BY_THE_PLAN and (not rest or name in SET_BY_THE_PLAN[first])


def _refuse_held(where: str, names: Sequence[str]) -> None:
    if names:
        raise SettingError(
            f"{where} cannot hold {', '.join(names)}: the plan's datasets, objectives and trials "
            f"set {'it' if len(names) == 1 else 'them'}."
        )


def _entries(
    kind: type[T], content: Mapping[str, Any], name: str, problems: PlanProblems, also: str = ""
) -> tuple[T, ...]:
    """The datasets, objectives or models; a bare name stands for an entry with that name.

    A list may be left out where the plan has the list ``also``.
    """
    given = content.get(name)
    if given is None and also and content.get(also):
        return ()
    if not isinstance(given, list) or not given:
        if given is None and name == "models":
            return ()  # objectives are missing too, which is said of them
        problems.note(f"{name} must be a list with at least one entry, got {given!r}.")
        return ()
    found = []
    for number, entry in enumerate(given):
        whole = {"name": entry} if isinstance(entry, str) else entry
        found.append(problems.read(kind, whole, f"{name}[{number}]"))
        if isinstance(whole, Mapping) and whole.get("grid") == {}:
            problems.note(EMPTY_GRID.format(f"{name}[{number}].grid"))
        if isinstance(whole, Mapping) and isinstance(label := whole.get("label"), str):
            with problems.noted():
                _LABEL.check(label, f"{name}[{number}].label")
    return tuple(each for each in found if each is not None)


def _mapping(content: Mapping[str, Any], name: str, problems: PlanProblems) -> dict[str, Any]:
    given = content.get(name, {})
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        problems.note(f"{name} must hold fields (name: value), got {given!r}.")
        return {}
    return dict(given)


def _check_spaces(plan: SweepPlan, problems: PlanProblems) -> None:
    owners = [("", plan.search, plan.grid)]
    owners += [(f"{each.called}: ", each.search, each.grid) for each in plan.methods]
    for owner, search, grid in owners:
        for path, given in search.items():
            with problems.noted():
                space_of(given, f"{owner}search.{path}")
        for path, given in grid.items():
            with problems.noted():
                grid_values(given, f"{owner}grid.{path}")
    searched = bool(plan.search) or any(each.search for each in plan.methods)
    drawn = searched or plan.draws is not None or plan.draws_per_trial or plan.adaptive
    if plan.has_grid and drawn:
        problems.note(
            "grid cannot be combined with draws, draws_per_trial, search or adaptive: run every "
            "point of a grid, or draws."
        )
    if searched and plan.draws in (None, 1):
        problems.note("search needs draws of at least 2: draw 0 is the defaults.")


def _check_adaptive(plan: SweepPlan, problems: PlanProblems) -> None:
    if plan.adaptive is None:
        return
    if plan.draws in (None, 1):
        problems.note("adaptive needs draws of at least 2: draw 0 is the defaults.")
    if plan.draws_per_trial:
        problems.note("draws_per_trial is for random draws: each trial of adaptive has its own.")
    if plan.adaptive.pruner is not None and not plan.objectives:
        problems.note(
            "adaptive.pruner needs objectives: table models are fitted in one go. Leave it out."
        )
