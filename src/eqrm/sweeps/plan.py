"""A plan: datasets × objectives × held-out domains × hyperparameters × trials, as YAML holds it.

Table models are listed beside objectives, and take their place in records. This module reads a plan
and checks what it says by itself; ``eqrm.sweeps.planned_runs`` turns it into runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eqrm.checks import (
    SEED,
    Rule,
    check_all,
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
from eqrm.files.plain import plain_values, read_as
from eqrm.objectives.base import objective_class
from eqrm.objectives.registry import OBJECTIVES
from eqrm.sweeps.optuna_study import AdaptiveSettings
from eqrm.sweeps.spaces import grid_values, space_of
from eqrm.sweeps.table_runs import LABEL, PlannedModel
from eqrm.training.runs.config import ObjectiveConfig

HELD_OUT = ("each", "each-and-pairs")
SET_BY_THE_PLAN = {
    "data": ("dataset", "settings", "test", "leave_out", "seed"),
    "training": ("seed",),
    "batches": ("seed",),
}
"""Fields of a configuration that ``run``, ``search`` and ``grid`` cannot hold."""
_COUNT = integer(1, MOST)
_ENTRIES = Rule("a list with at least one entry", bool)


@dataclass(frozen=True)
class PlannedDataset:
    """A dataset of a plan (docs/sweeps.md)."""

    name: str
    held_out: str | list[Any] | HeldOutShare | HeldOutInTime = "each"
    label: str | None = ruled(None, LABEL)
    settings: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        DATASETS.name_of(self.name)
        if isinstance(self.held_out, str):
            one_of(self.held_out, HELD_OUT, "choice of held_out")
        if isinstance(self.held_out, list) and not self.held_out:
            raise SettingError("held_out lists no domains. Name some, or leave it out.")
        refuse_fields_of_the_plan("run", fields_of(self.run))

    @property
    def called(self) -> str:
        """What records call it."""
        return self.label or DATASETS.name_of(self.name)


@dataclass(frozen=True)
class PlannedObjective:
    """An objective of a plan (docs/sweeps.md)."""

    name: str
    label: str | None = ruled(None, LABEL)
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] | None = None
    phases: str | list[Any] | None = None
    search: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        read_as(ObjectiveConfig, self.content())
        known = objective_class(self.name, self.preset).hyperparameters
        for where, given in (("search", self.search), ("grid", self.grid)):
            refuse_unknown(given, known, f"{where} of {self.called}", "hyperparameter")
            for both in sorted(set(given) & set(self.hyperparameters)):
                raise SettingError(
                    f"{both!r} is in hyperparameters and in {where}. Remove it from one of them."
                )

    @property
    def called(self) -> str:
        return self.label or OBJECTIVES.name_of(self.name)

    def content(self) -> dict[str, Any]:
        """The field ``objective`` of a run's configuration, before anything is drawn."""
        return {
            "name": OBJECTIVES.name_of(self.name),
            "hyperparameters": self.hyperparameters,
            "memory": self.memory,
            "preset": self.preset,
        }


@dataclass(frozen=True)
class SweepPlan:
    """What a plan says (docs/sweeps.md): every dataset with every objective and table model."""

    datasets: tuple[PlannedDataset, ...] = field(metadata={"rule": _ENTRIES})
    objectives: tuple[PlannedObjective, ...] = ()
    models: tuple[PlannedModel, ...] = ()
    run: dict[str, Any] = field(default_factory=dict)
    seed: int = ruled(0, SEED)
    draws: int | None = ruled(None, optional(_COUNT))
    trials: int = ruled(1, _COUNT)
    draws_per_trial: bool = False
    search: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    adaptive: AdaptiveSettings | None = None
    protocol: str | None = None

    def __post_init__(self) -> None:
        check_all(lambda: check_fields(self), *self._checks())

    @property
    def methods(self) -> tuple[PlannedObjective | PlannedModel, ...]:
        return (*self.objectives, *self.models)

    @property
    def has_grid(self) -> bool:
        """Whether the points of a grid are run instead of random draws."""
        return bool(self.grid) or any(each.grid for each in self.methods)

    def _checks(self) -> Iterator[Callable[[], object]]:
        """What the parts of a plan say of each other."""
        yield partial(_refuse_twice, "datasets", [each.called for each in self.datasets])
        yield partial(_refuse_twice, "objectives and models", [e.called for e in self.methods])
        for where, paths in (("run", fields_of(self.run)), ("search", self.search)):
            yield partial(refuse_fields_of_the_plan, where, paths)
        yield partial(refuse_fields_of_the_plan, "grid", self.grid)
        owners = [("", self.search, self.grid)]
        owners += [(f"{each.called}: ", each.search, each.grid) for each in self.methods]
        for owner, search, grid in owners:
            for path, given in search.items():
                yield partial(space_of, given, f"{owner}search.{path}")
            for path, given in grid.items():
                yield partial(grid_values, given, f"{owner}grid.{path}")
        yield self._check_draws

    def _check_draws(self) -> None:
        searched = bool(self.search) or any(each.search for each in self.methods)
        drawn = searched or self.draws is not None or self.draws_per_trial or self.adaptive
        refused = {
            "objectives must be a list with at least one entry, or models.": not self.methods,
            "grid cannot be combined with draws, draws_per_trial, search or adaptive: run every "
            "point of a grid, or draws.": self.has_grid and drawn,
            "search and adaptive need draws of at least 2: draw 0 is the defaults.": (
                (searched or self.adaptive) and self.draws in (None, 1)
            ),
            "draws_per_trial is for random draws: each trial of adaptive has its own.": (
                self.adaptive and self.draws_per_trial
            ),
        }
        problems = [problem for problem, holds in refused.items() if holds]
        if problems:
            raise SettingError(" ".join(problems))


def named_entries(content: Any) -> Any:
    """A plan's content in which bare names stand no longer for entries with that name."""
    if not isinstance(content, Mapping):
        return content
    found = dict(content)
    for name in ("datasets", "objectives", "models"):
        if isinstance(entries := found.get(name), list):
            found[name] = [{"name": each} if isinstance(each, str) else each for each in entries]
    return found


def read_plan(content: Any) -> SweepPlan:
    """The plan in plain YAML content; all that is wrong with it is said at once."""
    return read_as(SweepPlan, named_entries(content), what="The plan")


def fields_of(content: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The fields of nested content by their paths, as training.optimizer.name."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        inside = f"{path}.{key}" if path else str(key)
        nested = isinstance(value, Mapping) and bool(value)
        found |= fields_of(value, inside) if nested else {inside: plain_values(value)}
    return found


def refuse_fields_of_the_plan(where: str, paths: Iterable[str]) -> None:
    """Refuse paths (``a.b``) that are, hold or are inside of a field that the plan sets."""
    held = []
    for path in paths:
        first, _, rest = path.partition(".")
        name = rest.partition(".")[0]
        if first == "objective":
            own = where != "run" and name in ("hyperparameters", "memory") and name != rest
        else:
            own = first not in SET_BY_THE_PLAN or (
                bool(rest) and name not in SET_BY_THE_PLAN[first]
            )
        held += [] if own else [path]
    if held:
        raise SettingError(
            f"{where} cannot hold {', '.join(held)}: the plan's datasets, objectives and trials "
            f"set {'it' if len(held) == 1 else 'them'}."
        )


def _refuse_twice(where: str, called: Sequence[str]) -> None:
    twice = sorted({each for each in called if called.count(each) > 1})
    if twice:
        raise SettingError(
            f"{where} list {', '.join(map(repr, twice))} twice. Give each a label of its own."
        )
