"""``eqrm train``: a table in; models for several levels, a risk table and a report out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.cli.options import (
    HELD_OUT,
    IN_TIME,
    SHARE,
    Categories,
    DomainColumns,
    Dropped,
    Features,
    ModelSettings,
    TestAfter,
    TestDomains,
    TestLast,
    TestShare,
    TrainedLevels,
    Weather,
    Within,
    conflicting_splits,
    inner_level,
    option,
    say,
    separated,
    typed_command,
)
from eqrm.errors import SettingError
from eqrm.files.yaml_text import parse_settings

if TYPE_CHECKING:
    from eqrm.data.splits import TimeSplit
    from eqrm.data.tables.table import Table

DATA, WHAT, HOW = "Data", "Training", "Output"
WRITING = "writing"
OWN = {"--category": "categories", "--within": "within"}
"""Options that a built-in table does not take."""
LARGEST = "To minimise the largest risk, use --measure worst and leave out --alpha."


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, pattern or folder; or 'flights' or 'coloured-digits', which "
            "ship with eqrm.",
        ),
    ],
    target: Annotated[str | None, option("Column to predict.", DATA)] = None,
    domain: DomainColumns = None,
    feature: Features = None,
    drop: Dropped = None,
    category: Categories = None,
    test: Annotated[
        str | None, option("Table of held-out domains to evaluate on.", HELD_OUT)
    ] = None,
    test_domains: TestDomains = None,
    within: Within = None,
    test_share: TestShare = None,
    weather: Weather = False,
    order: Annotated[
        str | None,
        option(
            "Column with the time of each row, a date or a number, to train on the past and hold "
            f"out later domains (the last {SHARE} of them unless --test-after or --test-last says "
            "otherwise). Default with these two: the domain. Not a feature unless --feature lists "
            "it.",
            HELD_OUT,
            metavar="COLUMN",
        ),
    ] = None,
    test_after: TestAfter = None,
    test_last: TestLast = None,
    measure: Annotated[
        str,
        option(
            "What to minimise over the training domains: quantile, superquantile (the mean risk "
            "of the worst share 1−α), worst (the largest risk; no --alpha) or mean (ERM alone).",
            WHAT,
        ),
    ] = "quantile",
    alpha: TrainedLevels = None,
    surrogate: Annotated[
        str,
        option(
            "What is minimised to get a low quantile: auto (chosen by cross-fitting over training "
            "domains) or none (the quantile itself, at its level).",
            WHAT,
        ),
    ] = "auto",
    model: Annotated[str, option("linear, mlp, xgboost or lightgbm.", WHAT)] = "linear",
    task: Annotated[str, option("classification, regression or auto.", WHAT)] = "auto",
    settings: ModelSettings = None,
    unseen: Annotated[
        str,
        option("What to do about categories that occur only in test domains: warn or error.", WHAT),
    ] = "warn",
    seed: Annotated[
        int | None, option("Random seed of the split and of the model (default: 0).", WHAT)
    ] = None,
    output: Annotated[Path, option("Folder to write everything to.", HOW)] = Path("train-output"),
    confidence: Annotated[
        float, option("Confidence level of intervals and certificates.", HOW)
    ] = 0.95,
) -> None:
    """Train ERM and one model per level on a table, and evaluate all on held-out domains.

    Put a name that contains a comma in double quotes: --drop '"height, cm",age'.
    """
    from eqrm.checks import OPEN_FRACTION
    from eqrm.tabular.comparison import compare_training
    from eqrm.tabular.output import check_folder, write_training
    from eqrm.tabular.training import TrainingPlan, train_on_table
    from eqrm.tabular.wording import in_words

    OPEN_FRACTION.check(confidence, "--confidence")
    held_out = {
        "--test": test,
        "--test-domains": separated(test_domains or []) or None,
        "--test-share": test_share,
        "--order": order,
        "--test-after": test_after,
        "--test-last": test_last,
    }
    _refuse_conflicts(held_out, seeded=seed is not None, model=model)
    plan = TrainingPlan.of(
        [inner_level(each, LARGEST) for each in separated(alpha)] if alpha else None,
        measure=measure,
        surrogate=surrogate,
        model=model,
        task=task,
        seed=seed or 0,
        settings=parse_settings(settings or []),
        unseen=unseen,
    )
    check_folder(output)

    def kept(step: str) -> str:
        if step == WRITING:
            return f"The files in {output} may be incomplete. Run the command again."
        return f"Nothing was saved to {output}. Run the command again."

    with steps_shown(6 + len(plan.levels), kept) as tell:
        tell("reading the table")
        columns = {
            "features": separated(feature) if feature else None,
            "drop": separated(drop or []),
            "categories": separated(category or []),
            "order": order,
            "within": within,
        }
        table = read_any_table(data, target, domain, weather, columns)
        seen, unseen_part, in_time = _split(table, held_out, plan.seed)
        found = train_on_table(seen, unseen_part, plan, tell, in_time)
        tell(WRITING)
        compared = compare_training(found, confidence)
        written = write_training(found, compared, output, command=typed_command())
    say(in_words(found, compared))
    names = [path for path in written if path.parent == output]
    say(f"\nReport: {output / 'report.html'}")
    say(f"Models: {output / 'models'} ({len(found.models)}, for eqrm predict)")
    say(f"Also in {output}: {', '.join(path.name for path in names[1:])}")
    if not any(path.suffix == ".svg" for path in names):
        say("No picture: matplotlib is not installed (pip install 'eqrm[plots]').")


def read_any_table(
    data: str, target: str | None, domain: list[str] | None, weather: bool, columns: dict[str, Any]
) -> Table:
    """A table of the user's files, or one that ships with eqrm."""
    from eqrm.data.datasets.registry import BUILT_IN
    from eqrm.data.tables.reading import read_table

    if weather and data != "flights":
        raise SettingError("--weather can only be used with the table 'flights'.")
    if data in BUILT_IN and not Path(data).exists():
        joined = " and ".join(domain) if domain else None
        given = {"--target": target, "--domain": joined, "--order": columns["order"]}
        return _built_in(data, weather, given, columns)
    for name, value in (("--target", target), ("--domain", domain)):
        if not value:
            raise SettingError(f"{name} COLUMN is required for {own_name(data)}.")
    return read_table(data, str(target), domain or [], **columns)


def own_name(data: str) -> str:
    """What the user's table is called; a file may hide one that ships with eqrm."""
    from eqrm.data.datasets.registry import BUILT_IN

    hides = "the file or folder of that name hides the table that ships with eqrm"
    return f"{data} ({hides})" if data in BUILT_IN else data


def _built_in(
    name: str, weather: bool, given: Mapping[str, str | None], columns: Mapping[str, Any]
) -> Table:
    """A table by name, whose columns are what they are."""
    from eqrm.data.datasets.registry import raw_dataset

    settings: dict[str, Any] = {"weather": True} if weather else {}
    table: Any = raw_dataset(name, **settings)
    own = {"--target": table.target_name, "--domain": table.domain_name}
    own["--order"] = table.domain_name
    differ = [key for key, value in given.items() if value not in (None, own[key])]
    differ += [option for option, name in OWN.items() if columns.get(name)]
    if differ:
        raise SettingError(
            f"The table {name!r} has the target {table.target_name!r} and the domain "
            f"{table.domain_name!r}, and no other order than that of its domain: leave out "
            f"{', '.join(differ)}."
        )
    found: Table = table.with_features(columns["features"], columns["drop"])
    return found


def _refuse_conflicts(given: Mapping[str, Any], *, seeded: bool, model: str) -> None:
    """Refuse options that choose the held-out domains in two ways, all of them at once."""
    in_time = any(given[name] is not None for name in IN_TIME)
    problems = conflicting_splits(given)
    if in_time and seeded and model == "linear":
        problems.append("--seed has no effect on a split in time and a linear model: leave it out.")
    if problems:
        raise SettingError(" ".join(problems))


def _split(
    table: Table, given: Mapping[str, Any], seed: int
) -> tuple[Table, Table, TimeSplit | None]:
    """The tables to train and to evaluate on, and how they were split if that was in time."""
    if any(given[name] is not None for name in IN_TIME):
        after, last = given["--test-after"], given["--test-last"]
        in_time = table.in_time(after=after, last=SHARE if after is None and last is None else last)
        return *table.split(in_time), in_time
    if given["--test"] is None:
        share = SHARE if given["--test-share"] is None else given["--test-share"]
        return *table.split(given["--test-domains"] or share, seed), None
    from eqrm.data.tables.reading import read_test_table

    return table, read_test_table(given["--test"], table), None


@contextmanager
def steps_shown(total: int, kept: Callable[[str], str]) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, on standard error; on Ctrl-C, the step that was stopped.

    ``kept`` says what is left of the work when a step is interrupted, and what to do.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task("", total=total)
        try:
            yield lambda what: bar.update(task, advance=1, description=what)
        except KeyboardInterrupt:
            step = bar.tasks[0].description
            bar.stop()
            say(f"eqrm: Interrupted while {step}. {kept(step)}", err=True)
            raise typer.Exit(130) from None
