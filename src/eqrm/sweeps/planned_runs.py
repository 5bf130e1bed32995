"""From a plan to its runs: the configuration of each, checked before any is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, count
from math import comb, prod
from pathlib import Path
from typing import Any

from eqrm.data.datasets.registry import raw_dataset
from eqrm.data.domain_data import DomainData
from eqrm.data.splits import parts_of_domains
from eqrm.errors import EqrmError, SettingError
from eqrm.sweeps.configurations import (
    Configurations,
    Method,
    base_configuration,
    points_of,
    read_configuration,
    refused_fields,
    values_of,
)
from eqrm.sweeps.optuna_study import AdaptiveSettings
from eqrm.sweeps.plan import MOST, HeldOutShare, PlannedDataset, Problems, SweepPlan, read_plan
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
from eqrm.text import counted, did_you_mean
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.config_reading import plain_values
from eqrm.training.runs.run import trainer_on
from eqrm.training.runs.run_data import RunData
from eqrm.training.training_settings import naming_field


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

    def run(self, draw: int, values: Mapping[str, Any]) -> PlannedRun:
        """The run of a draw; draw 0 is the defaults, without values."""
        config = read_run_config(self.configurations.content(values))
        place = (self.dataset, self.objective, self.held_out, draw, self.trial)
        own = _placed(config, self.seed, place)
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
    problems = Problems()
    filled = content
    with problems.noted():
        filled = with_protocol(content)
    plan = read_plan(filled, problems)
    found: list[PlannedRun] = []
    searches: list[PlannedSearch] = []
    known: dict[str, tuple[str, ...]] = {}
    for dataset in plan.datasets:
        with problems.noted(dataset.called):
            known[dataset.called] = _names_of_domains(dataset, data_root)
    if (small := _refuse_too_many(plan, known, problems)) is not plan:
        plan, known = small, {}
    for dataset in plan.datasets or _any_dataset(filled):
        names = known.get(dataset.called)
        first: list[PlannedRun] = []
        for method in plan.methods:
            runs = list(_runs_of(plan, dataset, method, names, problems))
            first += runs[:1]
            if plan.adaptive is None:
                found += runs
            elif not problems:
                searches += _searches_of(plan, plan.adaptive, dataset, method, runs)
        if names is not None and not problems:
            _make_ready(first, problems, data_root)
    notes = tuple(protocol_notes(plan))
    planned = PlannedSweep(plain_values(content), tuple(found), tuple(searches), notes)
    if folder is not None:
        with problems.noted():
            folder.refuse_another_plan(planned.content, None if problems else planned.runs_listed())
    problems.refuse(source)
    return planned


def _names_of_domains(dataset: PlannedDataset, root: str | Path | None) -> tuple[str, ...]:
    found = raw_dataset(dataset.name, root, **dataset.settings)
    return tuple(found.names if isinstance(found, DomainData) else found.domain_names)


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
    names: Sequence[str] | None,
    problems: Problems,
) -> Iterator[PlannedRun]:
    """The runs of one method on one dataset; without names, to check its configuration only.

    Where draws are proposed later, the defaults, and a few random draws to be checked.
    """
    where = f"{method.called} on {dataset.called}"
    splits: list[tuple[str, ...]] = []
    with problems.noted(f"{dataset.called}: held_out"):
        splits = [()] if names is None else sets_of_test_domains(dataset, names, plan.seed)
    base: AnyRunConfig | None = None
    refused: list[tuple[str, str]] | None = None
    with problems.noted(where):
        base = read_configuration(base_configuration(plan, dataset, method))
        if plan.adaptive is not None:
            _refuse_unsearchable(plan.adaptive, base, splits)
    points: list[tuple[dict[str, Any], tuple[str, ...]]] = []
    for trial in range(plan.trials):
        if trial == 0 or plan.draws_per_trial:
            with problems.noted(where):
                points = points_of(plan, dataset, method, trial)
        for draw, (content, searched) in enumerate(points):
            try:
                config = read_configuration(content)
                values = values_of(config, searched)
            except EqrmError as error:
                if refused is None:
                    known = Configurations.of(plan, dataset, method)
                    refused = list(refused_fields(known, plan.has_grid))
                for path, refusal in refused:
                    shared = path in plan.search or path in plan.grid
                    problems.note(refusal, "" if shared else where)
                if base is not None and not refused:
                    problems.note(str(error), where)
                continue
            for held_out in splits:
                place = (dataset.called, method.called, held_out, draw, trial)
                own = _placed(config, plan.seed, place)
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
    for held_out, trial in dict.fromkeys((run.held_out, run.trial) for run in runs):
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
        found: dict[tuple[str, ...], None] = {}
        for number in range(_number_of_sets(dataset, names)):
            for attempt in count():
                key = (
                    seed,
                    "test domains",
                    dataset.called,
                    number,
                    *([attempt] if attempt else []),
                )
                test = parts_of_domains(shares, names, seed_of(*key))["test"]
                if (drawn := tuple(names[at] for at in test)) not in found:
                    break
            found[drawn] = None
        return list(found)
    sets = [
        tuple(str(name) for name in (each if isinstance(each, list) else [each])) for each in given
    ]
    wrong = [
        f"the domain {name!r} does not exist. {did_you_mean(name, names)}"
        for name in sorted({name for each in sets for name in each} - set(names))
    ]
    same = Counter(map(frozenset, sets))
    for each in {frozenset(each): each for each in sets}.values():
        if not each or len(set(each)) < len(each) or same[frozenset(each)] > 1:
            wrong.append(f"{list(each)} is empty, is listed twice, or lists a domain twice.")
    if wrong:
        raise SettingError(" ".join(wrong))
    return sets


def _number_of_sets(dataset: PlannedDataset, names: Sequence[str] | None) -> int:
    """How many sets of test domains a dataset with these domains has."""
    given = dataset.held_out
    if names is None or isinstance(given, list):
        return len(given) if isinstance(given, list) else 1
    if not isinstance(given, HeldOutShare):
        return len(names) + (comb(len(names), 2) if given == "each-and-pairs" else 0)
    shares: dict[str, Any] = {"train": None, "validation": [], "test": given.share}
    size = len(parts_of_domains(shares, names, 0)["test"])
    if given.splits > comb(len(names), size):
        raise SettingError(
            f"splits is {given.splits}, but {counted(len(names), 'domain')} have only "
            f"{counted(comb(len(names), size), 'set')} of {size}. Ask for at most as many."
        )
    return given.splits


def _refuse_too_many(
    plan: SweepPlan, names: Mapping[str, Sequence[str] | None], problems: Problems
) -> SweepPlan:
    """The plan itself; where it has too many runs, a small part of it, to be checked further."""
    sets = 0
    for dataset in plan.datasets:
        with suppress(SettingError):  # what is wrong with held_out is said later
            sets += _number_of_sets(dataset, names.get(dataset.called))
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
    config: AnyRunConfig, seed: int, place: tuple[str, str, tuple[str, ...], int, int]
) -> AnyRunConfig:
    """The configuration of a run: its test domains, and its seeds.

    The examples for validation depend on dataset and trial only, so that runs are compared on
    the same examples; weights and batches differ from run to run.
    """
    dataset, _, held_out, _, trial = place
    split = seed_of(seed, "examples", dataset, trial)
    with naming_field("data"):
        data = replace(config.data, test=list(held_out), seed=split)
    own = seed_of(seed, "training", *place)
    if isinstance(config, TableRunConfig):
        return replace(config, data=data, seed=own)
    return replace(config, data=data, training=replace(config.training, seed=own))


def _make_ready(first: Sequence[PlannedRun], problems: Problems, root: str | Path | None) -> None:
    """Make the first run of every method on a dataset ready to train; nothing is written."""
    data: RunData | None = None
    for run in first:
        with problems.noted(f"{run.objective} on {run.dataset}"):
            data = data or RunData.read(run.config.data, root)
            if isinstance(run.config, TableRunConfig):
                ready_estimator(run.config, data)
            else:
                trainer_on(run.config, data, "runs")
