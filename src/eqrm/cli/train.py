"""``eqrm train``: a table in; models for several levels, a risk table and a report out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.cli.several_values import CommandWithLists, is_a_value, looks_like_levels
from eqrm.errors import SettingError

if TYPE_CHECKING:
    from eqrm.data.tables.table import Table

FLIGHTS = "flights"
LEVELS = ("0.5", "0.75", "0.9", "0.95", "0.99")
DATA, HELD_OUT, WHAT, HOW = "Data", "Domains held out", "Training", "Output"


class TrainCommand(CommandWithLists):
    """Several values in a row for the options that take lists."""

    several = {  # noqa: RUF012
        "--alpha": looks_like_levels,
        "--test-domains": is_a_value,
        "--feature": is_a_value,
        "--drop": is_a_value,
        "--category": is_a_value,
        "--set": is_a_value,
    }


def _option(text: str, panel: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel)


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A CSV or Parquet file, a pattern, a folder; or 'flights', the data inside.",
        ),
    ],
    target: Annotated[str | None, _option("The column to predict.", DATA)] = None,
    domain: Annotated[str | None, _option("The column of the domain.", DATA)] = None,
    feature: Annotated[
        list[str] | None, _option("Columns to predict from; all others unless given.", DATA)
    ] = None,
    drop: Annotated[list[str] | None, _option("Columns to leave out.", DATA)] = None,
    category: Annotated[
        list[str] | None, _option("Columns of numbers to take as categories.", DATA)
    ] = None,
    weather: Annotated[
        bool, _option("With 'flights': add the weather at departure.", DATA, "--weather")
    ] = False,
    test: Annotated[str | None, _option("A table of other domains to judge by.", HELD_OUT)] = None,
    test_domains: Annotated[
        list[str] | None, _option("The domains to hold out, by name.", HELD_OUT)
    ] = None,
    test_share: Annotated[
        float, _option("The share of the domains to hold out, drawn by --seed.", HELD_OUT)
    ] = 0.5,
    alpha: Annotated[
        list[str] | None, _option("The levels to train for; ERM is always trained.", WHAT)
    ] = None,
    model: Annotated[str, _option("linear, mlp, xgboost or lightgbm.", WHAT)] = "linear",
    task: Annotated[str, _option("classification, regression or auto.", WHAT)] = "auto",
    settings: Annotated[
        list[str] | None, _option("NAME=VALUE for the model, as in docs/train.md.", WHAT, "--set")
    ] = None,
    unseen: Annotated[
        str, _option("Categories that only test domains have: warn or error.", WHAT)
    ] = "warn",
    seed: Annotated[int, _option("Of the held out domains, and of the model.", WHAT)] = 0,
    output: Annotated[Path, _option("A folder for all that is written.", HOW)] = Path(
        "train-output"
    ),
    confidence: Annotated[float, _option("Of intervals and certificates.", HOW)] = 0.95,
) -> None:
    """Train for the mean and for several levels, and judge all on domains never seen."""
    from eqrm.evaluation.inference.risk_checks import checked_confidence
    from eqrm.tabular.output import check_folder, in_words, write_training
    from eqrm.tabular.training import TrainingPlan, train_on_table

    checked_confidence(confidence)
    plan = TrainingPlan.of(
        [level for text in alpha or LEVELS for level in text.split(",") if level],
        model=model,
        task=task,
        seed=seed,
        settings=_settings(settings or []),
        unseen=unseen,
    )
    check_folder(output)
    with _progress(total=5 + len(plan.levels)) as tell:
        tell("reading the table")
        columns = (feature, drop or [], category or [])
        table = _read(data, target, domain, *columns, weather=weather)
        parts = _split(table, test, test_domains, test_share, seed)
        found = train_on_table(*parts, plan, tell)
        tell("writing")
        written = write_training(found, output, command=_command(), confidence=confidence)
        words = in_words(found, confidence)
    typer.echo(words)
    names = [path for path in written if path.parent == output]
    typer.echo(f"\nReport: {output / 'report.html'}")
    typer.echo(f"Models: {output / 'models'} ({len(found.models)}, for eqrm predict)")
    typer.echo(f"Also in {output}: {', '.join(path.name for path in names[1:])}")
    if not any(path.suffix == ".svg" for path in names):
        typer.echo("No picture: matplotlib is not installed (pip install 'eqrm[plots]').")


def _read(
    data: str,
    target: str | None,
    domain: str | None,
    feature: Sequence[str] | None,
    drop: Sequence[str],
    category: Sequence[str],
    *,
    weather: bool,
) -> Table:
    if data == FLIGHTS and not Path(data).exists():
        return _flights(target, domain, feature, drop, category, weather)
    if weather:
        raise SettingError("--weather belongs to the table 'flights'.")
    from eqrm.data.tables.reading import read_table

    for name, value in (("--target", target), ("--domain", domain)):
        if value is None:
            raise SettingError(f"Which column? Give {name} COLUMN for {data}.")
    return read_table(
        data, str(target), str(domain), features=feature, drop=drop, categories=category
    )


def _flights(
    target: str | None,
    domain: str | None,
    feature: Sequence[str] | None,
    drop: Sequence[str],
    category: Sequence[str],
    weather: bool,
) -> Table:
    from eqrm.data.datasets.flights import load_flights

    if target not in (None, "late") or domain not in (None, "day") or category:
        raise SettingError(
            "The table 'flights' has the target 'late' and the domain 'day'; leave out --target, "
            "--domain and --category."
        )
    return load_flights(weather).with_features(feature, drop)


def _split(
    table: Table,
    test: str | None,
    test_domains: Sequence[str] | None,
    share: float,
    seed: int,
) -> tuple[Table, Table]:
    if test is not None and test_domains:
        raise SettingError("Give --test or --test-domains, not both.")
    if test is None:
        return table.split(list(test_domains) if test_domains else share, seed)
    from eqrm.data.tables.reading import read_test_table

    return table, read_test_table(test, table)


def _settings(given: Sequence[str]) -> dict[str, Any]:
    """``max_depth=3`` as a setting; values are read as YAML, so that 3 is a number.

    >>> _settings(["max_depth=3", "hidden=[32, 32]", "bandwidth=silverman"])
    {'max_depth': 3, 'hidden': [32, 32], 'bandwidth': 'silverman'}
    """
    import yaml

    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise SettingError(f"--set takes NAME=VALUE, but {text!r} came.")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise SettingError(f"The value of --set {text!r} cannot be read.") from None
    return found


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, on standard error; elsewhere nothing."""
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
        yield lambda what: bar.update(task, advance=1, description=what)


def _command() -> str:
    """The command as it can be typed again."""
    import shlex

    return shlex.join(["eqrm", *sys.argv[1:]])
