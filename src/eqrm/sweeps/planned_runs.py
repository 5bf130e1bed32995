"""From a plan to its runs: the configuration of each, checked before any is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice, product
from math import prod
from pathlib import Path
from typing import Any

from eqrm.checks import Problems, naming_field
from eqrm.data.datasets.registry import raw_dataset
from eqrm.data.domain_data import DomainData
from eqrm.data.splits import MOST, HeldOutInTime, HeldOutShare, listed_sets, with_parts
from eqrm.errors import SettingError
from eqrm.files.plain import plain_values
from eqrm.sweeps.configurations import Configurations, Method, points_of, value_at
from eqrm.sweeps.optuna_study import AdaptiveSettings
from eqrm.sweeps.plan import PlannedDataset, SweepPlan, read_plan
from eqrm.sweeps.protocols import protocol_notes, with_protocol
from eqrm.sweeps.records import RunPlace
from eqrm.sweeps.spaces import Space, seed_of
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.table_runs import (
    AnyRunConfig,
    TableRunConfig,
    read_run_config,
    ready_estimator,
)
from eqrm.training.runs.run import trainer_on
from eqrm.training.runs.run_data import RunData

TestSets = Mapping[tuple[str, ...], tuple[str, ...]]
"""Every set of test domains of a dataset, and the domains that are then left out."""


@dataclass(frozen=True)
class PlannedRun(RunPlace):
    """A run of a sweep: its place in the plan, and its configuration."""

    config: AnyRunConfig


@dataclass(frozen=True)
class PlannedSearch:
    """Draws that are proposed one after the other, from what the ones before reached.

    Each dataset, method, set of test domains and trial has a search of its own: a draw knows
    nothing of the domains that it is tested on.
    """

    dataset: str
    objective: str
    held_out: tuple[str, ...]
    trial: int
    draws: int
    seed: int
    settings: AdaptiveSettings
    configurations: Configurations
    spaces: Mapping[str, Space]
    left_out: tuple[str, ...] = ()

    def place(self, draw: int) -> tuple[str, str, tuple[str, ...], int, int]:
        """Where a draw stands in the plan."""
        return self.dataset, self.objective, self.held_out, draw, self.trial

    def run(self, draw: int, values: Mapping[str, Any]) -> PlannedRun:
        """The run of a draw; draw 0 is the defaults, without values."""
        config = read_run_config(self.configurations.content(values))
        found = {path: value_at(config, path) for path in self.spaces}
        return _placed(config, found, self.seed, self.place(draw), self.left_out)


@dataclass(frozen=True)
class PlannedSweep:
    """A plan, as it was given, and all of its runs, or the searches that will propose them."""

    content: Mapping[str, Any]
    runs: tuple[PlannedRun, ...]
    searches: tuple[PlannedSearch, ...] = ()
    notes: tuple[str, ...] = ()
    """What the plan changes of its protocol."""

    def runs_listed(self) -> list[dict[str, Any]]:
        """The places of the runs, in plain types; ``run`` is None before it is proposed."""
        found = [run.place() for run in self.runs]
        for search in self.searches:
            places = [RunPlace("", *search.place(n), {}).place() for n in range(search.draws)]
            found += [{**place, "run": None} for place in places]
        return found


def planned_sweep(
    content: Any,
    source: str,
    data_root: str | Path | None = None,
    folder: SweepFolder | None = None,
) -> PlannedSweep:
    """The runs of a plan in plain YAML content; an error lists all that is wrong with the plan, or
    all that its data tell.

    Every dataset is read once, for the names of its domains, and one run per dataset and
    objective is made ready to train, so that what cannot run is found here. A ``folder`` that
    belongs to another plan is a problem too.
    """
    problems, given = Problems(), plain_values(content)
    plans: list[SweepPlan] = []
    with problems.noted():
        plans.append(read_plan(with_protocol(content)))
    if folder is not None:
        with problems.noted():
            folder.refuse_another_plan(given, None)
    problems.refuse(source)
    (plan,) = plans
    sets: dict[str, TestSets] = {}
    for dataset in plan.datasets:
        with problems.noted(dataset.called):
            sets[dataset.called] = _sets_of(dataset, plan.seed, data_root)
    _refuse_too_many(plan, sum(map(len, sets.values())), problems)
    problems.refuse(source)
    found: list[PlannedRun] = []
    searches: list[PlannedSearch] = []
    said: dict[str, str] = {}  # what is wrong, and where it was found first
    for dataset in plan.datasets:
        first: list[PlannedRun] = []
        for method in plan.methods:
            runs: list[PlannedRun] = []
            own = Problems()
            with own.noted():
                runs += _runs_of(plan, dataset, method, sets[dataset.called])
                searches += _searches_of(plan, dataset, method, sets[dataset.called])
            where = f"{method.called} on {dataset.called}"
            said |= {problem: where for problem in own if problem not in said}
            first += runs[:1]
            found += [] if plan.adaptive else runs
        said |= {} if said else _unready(first, data_root)
    for problem, where in said.items():
        problems.note(f"{where}: {problem}")
    problems.refuse(source)
    planned = PlannedSweep(given, tuple(found), tuple(searches), tuple(protocol_notes(plan)))
    if folder is not None:
        with problems.noted():
            folder.refuse_another_plan(given, planned.runs_listed())
        problems.refuse(source)
    return planned


def _sets_of(dataset: PlannedDataset, seed: int, root: str | Path | None) -> TestSets:
    data = raw_dataset(dataset.name, root, **dataset.settings)
    given = dataset.held_out
    with naming_field("held_out"):
        if isinstance(given, HeldOutInTime):
            return {split.test: split.left_out for split in data.in_time_at(given)}
        names = tuple(data.names if isinstance(data, DomainData) else data.domain_names)
        if isinstance(given, HeldOutShare):
            key = (seed, "test domains", dataset.called)
            return dict.fromkeys(given.sets(names, lambda *place: seed_of(*key, *place)), ())
        if isinstance(given, list):
            parts = data.parts if isinstance(data, DomainData) else {}
            return dict.fromkeys(listed_sets(with_parts(given, parts, names), names), ())
    pairs = combinations(names, 2) if given == "each-and-pairs" else ()
    sets = chain(((name,) for name in names), pairs)
    return dict.fromkeys(islice(sets, MOST + 1), ())


def _refuse_too_many(plan: SweepPlan, sets: int, problems: Problems) -> None:
    number = (plan.draws or 1) * len(plan.methods)
    if plan.has_grid:
        shared = prod(map(len, plan.grid.values()))
        number = sum(
            prod(map(len, each.grid.values())) * (shared if each in plan.objectives else 1)
            for each in plan.methods
        )
    if (runs := sets * number * plan.trials) > MOST:
        problems.note(
            f"The plan has {runs:,} runs: sets of test domains × draws × trials, of all datasets "
            f"and objectives. A plan can have at most {MOST:,}."
        )


def _runs_of(
    plan: SweepPlan, dataset: PlannedDataset, method: Method, sets: TestSets
) -> Iterator[PlannedRun]:
    """The runs of one method on one dataset.

    Where draws are proposed later, the defaults, and a few random draws to be checked.
    """
    points: list[tuple[AnyRunConfig, dict[str, Any]]] = []
    for trial in range(plan.trials):
        if trial == 0 or plan.draws_per_trial:
            points = points_of(plan, dataset, method, trial)
        for draw, (config, values) in enumerate(points):
            if plan.adaptive is not None and draw == 0:
                _refuse_unsearchable(config, list(sets))
            for held_out, left_out in sets.items():
                place = (dataset.called, method.called, held_out, draw, trial)
                yield _placed(config, values, plan.seed, place, left_out)


def _searches_of(
    plan: SweepPlan, dataset: PlannedDataset, method: Method, sets: TestSets
) -> Iterator[PlannedSearch]:
    """A search for each set of test domains and trial; none where draws are random."""
    if plan.adaptive is None:
        return
    known = Configurations.of(plan, dataset, method)
    for trial, held_out in product(range(plan.trials), sets):
        yield PlannedSearch(
            dataset.called,
            method.called,
            held_out,
            trial,
            plan.draws or 1,
            plan.seed,
            plan.adaptive,
            known,
            known.spaces_that_fit(),
            sets[held_out],
        )


def _refuse_unsearchable(config: AnyRunConfig, splits: Sequence[tuple[str, ...]]) -> None:
    """Raise if the results of runs cannot guide a search."""
    data = config.data
    if not data.validation and data.validation_examples is None:
        raise SettingError(
            "adaptive needs validation data: set data.validation_examples or data.validation."
        )
    sets = [frozenset(each) for each in splits]
    if any(one < other and len(other) == len(one) + 1 for one in sets for other in sets):
        raise SettingError(
            "adaptive cannot hold out domains and pairs of them (each-and-pairs): leave-one-"
            "domain-out selection needs the same draws in all runs."
        )


def _placed(
    config: AnyRunConfig,
    values: Mapping[str, Any],
    seed: int,
    place: tuple[str, str, tuple[str, ...], int, int],
    left_out: tuple[str, ...],
) -> PlannedRun:
    """The run at a place, with its test domains, those that are not used, and its seeds.

    The examples for validation depend on dataset and trial only, so that runs are compared on
    the same examples; weights and batches differ from run to run.
    """
    dataset, _, held_out, _, trial = place
    split = seed_of(seed, "examples", dataset, trial)
    with naming_field("data"):
        data = replace(config.data, test=list(held_out), seed=split)
        if left_out:
            data = replace(data, leave_out=list(left_out))
    own = seed_of(seed, "training", *place)
    if isinstance(config, TableRunConfig):
        config = replace(config, data=data, seed=own)
    else:
        config = replace(config, data=data, training=replace(config.training, seed=own))
    return PlannedRun(config.run_name, *place, values, config)


def _unready(first: Sequence[PlannedRun], root: str | Path | None) -> dict[str, str]:
    """Why methods on a dataset cannot be trained, and which, by their first runs."""
    data: RunData | None = None
    found: dict[str, str] = {}
    for run in first:
        problems = Problems()
        with problems.noted():
            data = data or RunData.read(run.config.data, root)
            if isinstance(run.config, TableRunConfig):
                ready_estimator(run.config, data)
            else:
                trainer_on(run.config, data, "runs")
        where = f"{run.objective} on {run.dataset}"
        found |= {problem: where for problem in problems if problem not in found}
    return found
