"""From a plan to its runs: the configuration of each, checked before any is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb, prod
from pathlib import Path
from typing import Any

from eqrm.checks import naming_field
from eqrm.data.datasets.registry import raw_dataset
from eqrm.data.domain_data import DomainData
from eqrm.data.splits import MOST, HeldOutInTime, HeldOutShare, TimeSplit, listed_sets, with_parts
from eqrm.errors import EqrmError, SettingError
from eqrm.files.plain import plain_values
from eqrm.sweeps.configurations import (
    Configurations,
    Method,
    base_configuration,
    points_of,
    refused_fields,
    values_of,
)
from eqrm.sweeps.optuna_study import AdaptiveSettings
from eqrm.sweeps.plan import PlannedDataset, PlanProblems, SweepPlan, read_plan
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
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import trainer_on
from eqrm.training.runs.run_data import RunData


@dataclass(frozen=True)
class KnownDomains:
    """The names of a dataset's domains, and its splits in time where the plan asks for them.

    ``parts`` are sets of domains that have a name, such as a published ``"test"``.
    """

    names: tuple[str, ...]
    in_time: tuple[TimeSplit, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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

    def run(self, draw: int, values: Mapping[str, Any]) -> PlannedRun:
        """The run of a draw; draw 0 is the defaults, without values."""
        config = read_run_config(self.configurations.content(values))
        place = (self.dataset, self.objective, self.held_out, draw, self.trial)
        own = _placed(config, self.seed, place, self.left_out)
        return PlannedRun(own.run_name, *place, values_of(own, self.spaces), own)

    def seed_of_draw(self, draw: int) -> int:
        """The seed of a proposal."""
        place = (self.dataset, self.objective, self.held_out, draw, self.trial)
        return seed_of(self.seed, "proposal", *place)

    def places(self) -> list[dict[str, Any]]:
        """The places of its runs, without what is not known before they are proposed."""
        return [
            {
                "run": None,
                "dataset": self.dataset,
                "objective": self.objective,
                "held_out": list(self.held_out),
                "draw": draw,
                "trial": self.trial,
                "settings": {},
            }
            for draw in range(self.draws)
        ]


@dataclass(frozen=True)
class PlannedSweep:
    """A plan, as it was given, and all of its runs, or the searches that will propose them."""

    content: Mapping[str, Any]
    runs: tuple[PlannedRun, ...]
    searches: tuple[PlannedSearch, ...] = ()
    notes: tuple[str, ...] = ()
    """What the plan changes of its protocol."""

    @property
    def number_of_runs(self) -> int:
        """How many runs there are, those that are not proposed yet among them."""
        return len(self.runs) + sum(search.draws for search in self.searches)

    def runs_listed(self) -> list[dict[str, Any]]:
        """The places of the runs, in plain types; ``run`` is None before it is proposed."""
        known = [run.place() for run in self.runs]
        return known + [place for search in self.searches for place in search.places()]


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
    problems = PlanProblems()
    filled = content
    with problems.noted():
        filled = with_protocol(content)
    plan = read_plan(filled, problems)
    found: list[PlannedRun] = []
    searches: list[PlannedSearch] = []
    known: dict[str, KnownDomains] = {}
    for dataset in plan.datasets:
        with problems.noted(dataset.called):
            known[dataset.called] = _known_domains(dataset, data_root)
    if (small := _refuse_too_many(plan, known, problems)) is not plan:
        plan, known = small, {}
    for dataset in plan.datasets or _any_dataset(filled):
        domains = known.get(dataset.called)
        first: list[PlannedRun] = []
        for method in plan.methods:
            runs = list(_runs_of(plan, dataset, method, domains, problems))
            first += runs[:1]
            if plan.adaptive is None:
                found += runs
            elif not problems:
                searches += _searches_of(plan, plan.adaptive, dataset, method, runs)
        if domains is not None and not problems:
            _make_ready(first, problems, data_root)
    notes = tuple(protocol_notes(plan))
    planned = PlannedSweep(plain_values(content), tuple(found), tuple(searches), notes)
    if folder is not None:
        with problems.noted():
            folder.refuse_another_plan(planned.content, None if problems else planned.runs_listed())
    problems.refuse(source)
    return planned


def _known_domains(dataset: PlannedDataset, root: str | Path | None) -> KnownDomains:
    found = raw_dataset(dataset.name, root, **dataset.settings)
    splits: list[TimeSplit] = []
    if isinstance(dataset.held_out, HeldOutInTime):
        with naming_field("held_out"):
            splits = found.in_time_at(dataset.held_out)
    if isinstance(found, DomainData):
        return KnownDomains(tuple(found.names), tuple(splits), found.parts)
    return KnownDomains(tuple(found.domain_names), tuple(splits))


def _any_dataset(content: Any) -> tuple[PlannedDataset, ...]:
    """In place of datasets that are all refused: a name, so that ``run`` is checked none the less.

    Nothing where they have fields of their own, which ``run`` may need.
    """
    given = content.get("datasets") if isinstance(content, Mapping) else None
    own = any(isinstance(each, Mapping) and "run" in each for each in given or [])
    return () if own else (PlannedDataset("colored-mnist", label="any dataset"),)


def _runs_of(
    plan: SweepPlan,
    dataset: PlannedDataset,
    method: Method,
    known: KnownDomains | None,
    problems: PlanProblems,
) -> Iterator[PlannedRun]:
    """The runs of one method on one dataset; its domains unknown, to check its configuration only.

    Where draws are proposed later, the defaults, and a few random draws to be checked.
    """
    where = f"{method.called} on {dataset.called}"
    splits: dict[tuple[str, ...], tuple[str, ...]] = {}
    with problems.noted(f"{dataset.called}: held_out"):
        splits = {(): ()} if known is None else sets_of_test_domains(dataset, known, plan.seed)
    base: AnyRunConfig | None = None
    refused: list[tuple[str, str]] | None = None
    with problems.noted(where):
        base = read_run_config(base_configuration(plan, dataset, method))
        if plan.adaptive is not None:
            _refuse_unsearchable(plan.adaptive, base, list(splits))
    points: list[tuple[dict[str, Any], tuple[str, ...]]] = []
    for trial in range(plan.trials):
        if trial == 0 or plan.draws_per_trial:
            with problems.noted(where):
                points = points_of(plan, dataset, method, trial)
        for draw, (content, searched) in enumerate(points):
            try:
                config = read_run_config(content)
                values = values_of(config, searched)
            except EqrmError as error:
                if refused is None:
                    configurations = Configurations.of(plan, dataset, method)
                    refused = list(refused_fields(configurations, plan.has_grid))
                for path, refusal in refused:
                    shared = path in plan.search or path in plan.grid
                    problems.note(refusal, "" if shared else where)
                if base is not None and not refused:
                    problems.note(str(error), where)
                continue
            for held_out, left_out in splits.items():
                place = (dataset.called, method.called, held_out, draw, trial)
                own = _placed(config, plan.seed, place, left_out)
                yield PlannedRun(own.run_name, *place, values, own)


def _searches_of(
    plan: SweepPlan,
    settings: AdaptiveSettings,
    dataset: PlannedDataset,
    method: Method,
    runs: Sequence[PlannedRun],
) -> Iterator[PlannedSearch]:
    """A search for each set of test domains and trial."""
    known = Configurations.of(plan, dataset, method)
    places = {(run.held_out, run.trial): run.config.data.leave_out for run in runs}
    for (held_out, trial), left_out in places.items():
        yield PlannedSearch(
            dataset.called,
            method.called,
            held_out,
            trial,
            plan.draws or 1,
            plan.seed,
            settings,
            known,
            known.spaces_that_fit(),
            tuple(map(str, left_out or ())),
        )


def _refuse_unsearchable(
    adaptive: AdaptiveSettings, config: AnyRunConfig, splits: Sequence[tuple[str, ...]]
) -> None:
    """Raise if the results of runs cannot guide a search."""
    data = config.data
    if not data.validation and data.validation_examples is None:
        raise SettingError(
            "adaptive needs validation data: set data.validation_examples or data.validation."
        )
    if isinstance(config, RunConfig) and adaptive.pruner is not None:
        every = config.training.evaluate_every
        if every is None or every >= config.steps:
            raise SettingError(
                "adaptive.pruner needs evaluations while a run is trained: set "
                f"training.evaluate_every to less than its {config.steps} steps."
            )
    sets = [frozenset(each) for each in splits]
    if any(one < other and len(other) == len(one) + 1 for one in sets for other in sets):
        raise SettingError(
            "adaptive cannot hold out domains and pairs of them (each-and-pairs): leave-one-"
            "domain-out selection needs the same draws in all runs."
        )


def sets_of_test_domains(
    dataset: PlannedDataset, known: KnownDomains, seed: int
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Every set of test domains of a dataset, and the domains that are then left out."""
    given, names = dataset.held_out, known.names
    if isinstance(given, HeldOutInTime):
        return {split.test: split.left_out for split in known.in_time}
    if isinstance(given, HeldOutShare):
        key = (seed, "test domains", dataset.called)
        return dict.fromkeys(given.sets(names, lambda *place: seed_of(*key, *place)), ())
    if isinstance(given, list):
        return dict.fromkeys(listed_sets(with_parts(given, known.parts, names), names), ())
    pairs = combinations(names, 2) if given == "each-and-pairs" else ()
    return dict.fromkeys([*((name,) for name in names), *pairs], ())


def _number_of_sets(dataset: PlannedDataset, known: KnownDomains | None) -> int:
    """How many sets of test domains a dataset with these domains has."""
    given = dataset.held_out
    if isinstance(given, HeldOutInTime):
        return given.origins
    if known is None or isinstance(given, list):
        return len(given) if isinstance(given, list) else 1
    if isinstance(given, HeldOutShare):
        return given.number(known.names)
    return len(known.names) + (comb(len(known.names), 2) if given == "each-and-pairs" else 0)


def _refuse_too_many(
    plan: SweepPlan, known: Mapping[str, KnownDomains], problems: PlanProblems
) -> SweepPlan:
    """The plan itself; where it has too many runs, a small part of it, to be checked further."""
    sets = 0
    for dataset in plan.datasets:
        with suppress(SettingError):  # what is wrong with held_out is said later
            sets += _number_of_sets(dataset, known.get(dataset.called))
    shared = prod(map(len, _lists(plan.grid).values()))
    points = sum(
        prod(map(len, _lists(each.grid).values())) * (shared if each in plan.objectives else 1)
        if plan.has_grid
        else plan.draws or 1
        for each in plan.methods
    )
    if sets * points * plan.trials <= MOST:
        return plan
    problems.note(
        f"The plan has {sets * points * plan.trials:,} runs: sets of test domains × draws × "
        f"trials, of all datasets and objectives. A plan can have at most {MOST:,}."
    )
    return replace(
        plan,
        draws=plan.draws and min(plan.draws, 2),
        trials=1,
        grid=_lists(plan.grid, 1),
        objectives=tuple(replace(each, grid=_lists(each.grid, 1)) for each in plan.objectives),
        models=tuple(replace(each, grid=_lists(each.grid, 1)) for each in plan.models),
    )


def _lists(grid: Mapping[str, Any], most: int | None = None) -> dict[str, list[Any]]:
    """The fields of a grid that list values, or the first of their values."""
    return {path: values[:most] for path, values in grid.items() if isinstance(values, list)}


def _placed(
    config: AnyRunConfig,
    seed: int,
    place: tuple[str, str, tuple[str, ...], int, int],
    left_out: tuple[str, ...],
) -> AnyRunConfig:
    """The configuration of a run: its test domains, those that are not used, and its seeds.

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
        return replace(config, data=data, seed=own)
    return replace(config, data=data, training=replace(config.training, seed=own))


def _make_ready(
    first: Sequence[PlannedRun], problems: PlanProblems, root: str | Path | None
) -> None:
    """Make the first run of every method on a dataset ready to train; nothing is written."""
    data: RunData | None = None
    for run in first:
        with problems.noted(f"{run.objective} on {run.dataset}"):
            data = data or RunData.read(run.config.data, root)
            if isinstance(run.config, TableRunConfig):
                ready_estimator(run.config, data)
            else:
                trainer_on(run.config, data, "runs")
