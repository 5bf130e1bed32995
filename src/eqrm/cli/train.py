"""``eqrm train``: a table in; models for several levels, a risk table and a report out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.cli.options import SEVERAL, option, separated, typed_command
from eqrm.errors import SettingError
from eqrm.files.yaml_text import parse_settings

if TYPE_CHECKING:
    from eqrm.data.tables.table import Table

FLIGHTS = "flights"
LEVELS = ("0.5", "0.75", "0.9", "0.95", "0.99")
DATA, HELD_OUT, WHAT, HOW = "Data", "Held-out domains", "Training", "Output"


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A CSV or Parquet file, a pattern or a folder; or 'flights', which comes with "
            "eqrm.",
        ),
    ],
    target: Annotated[str | None, option("Column to predict.", DATA)] = None,
    domain: Annotated[str | None, option("Column with the domain of each row.", DATA)] = None,
    feature: Annotated[
        list[str] | None,
        option(f"Columns to predict from (default: all others). {SEVERAL}", DATA),
    ] = None,
    drop: Annotated[list[str] | None, option(f"Columns to leave out. {SEVERAL}", DATA)] = None,
    category: Annotated[
        list[str] | None, option(f"Columns of numbers to read as categories. {SEVERAL}", DATA)
    ] = None,
    weather: Annotated[
        bool, option("For 'flights': add the weather at departure.", DATA, "--weather")
    ] = False,
    test: Annotated[
        str | None, option("Table with other domains to evaluate on.", HELD_OUT)
    ] = None,
    test_domains: Annotated[
        list[str] | None, option(f"Domains to hold out, by name. {SEVERAL}", HELD_OUT)
    ] = None,
    test_share: Annotated[
        float, option("Share of the domains to hold out, drawn with --seed.", HELD_OUT)
    ] = 0.5,
    alpha: Annotated[
        list[str] | None,
        option(f"Levels to train for, besides ERM (default: {','.join(LEVELS)}). {SEVERAL}", WHAT),
    ] = None,
    model: Annotated[str, option("linear, mlp, xgboost or lightgbm.", WHAT)] = "linear",
    task: Annotated[str, option("classification, regression or auto.", WHAT)] = "auto",
    settings: Annotated[
        list[str] | None,
        option(
            "Setting of the model, as in docs/train.md; repeat the option for several.",
            WHAT,
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None,
    unseen: Annotated[
        str,
        option("On categories that only test domains have: warn or error.", WHAT),
    ] = "warn",
    seed: Annotated[int, option("Random seed of the split and of the model.", WHAT)] = 0,
    output: Annotated[Path, option("Folder to write everything to.", HOW)] = Path("train-output"),
    confidence: Annotated[
        float, option("Confidence level of intervals and certificates.", HOW)
    ] = 0.95,
) -> None:
    """Train ERM and one model per level on a table, and evaluate all on held-out domains.

    A name that contains a comma stands in double quotes: --drop '"height, cm",age'.
    """
    from eqrm.checks import OPEN_FRACTION
    from eqrm.tabular.comparison import compare_with_erm
    from eqrm.tabular.output import check_folder, write_training
    from eqrm.tabular.training import TrainingPlan, train_on_table
    from eqrm.tabular.wording import in_words

    OPEN_FRACTION.check(confidence, "--confidence")
    plan = TrainingPlan.of(
        separated(alpha or LEVELS),
        model=model,
        task=task,
        seed=seed,
        settings=parse_settings(settings or []),
        unseen=unseen,
    )
    check_folder(output)
    with _progress(total=5 + len(plan.levels)) as tell:
        tell("reading the table")
        columns = {
            "features": separated(feature) if feature else None,
            "drop": separated(drop or []),
            "categories": separated(category or []),
        }
        table = _read(data, target, domain, weather, columns)
        parts = _split(table, test, separated(test_domains or []), test_share, seed)
        found = train_on_table(*parts, plan, tell)
        tell("writing")
        compared = compare_with_erm(found, confidence)
        written = write_training(found, compared, output, command=typed_command())
    typer.echo(in_words(found, compared))
    names = [path for path in written if path.parent == output]
    typer.echo(f"\nReport: {output / 'report.html'}")
    typer.echo(f"Models: {output / 'models'} ({len(found.models)}, for eqrm predict)")
    typer.echo(f"Also in {output}: {', '.join(path.name for path in names[1:])}")
    if not any(path.suffix == ".svg" for path in names):
        typer.echo("No picture: matplotlib is not installed (pip install 'eqrm[plots]').")


def _read(
    data: str, target: str | None, domain: str | None, weather: bool, columns: dict[str, Any]
) -> Table:
    if data == FLIGHTS and not Path(data).exists():
        from eqrm.data.datasets.flights import load_flights

        if target not in (None, "late") or domain not in (None, "day") or columns["categories"]:
            raise SettingError(
                "The table 'flights' has the target 'late' and the domain 'day'; leave out "
                "--target, --domain and --category."
            )
        return load_flights(weather).with_features(columns["features"], columns["drop"])
    from eqrm.data.tables.reading import read_table

    if weather:
        raise SettingError("--weather can only be used with the table 'flights'.")
    for name, value in (("--target", target), ("--domain", domain)):
        if value is None:
            raise SettingError(f"{name} COLUMN is required for {data}.")
    return read_table(data, str(target), str(domain), **columns)


def _split(
    table: Table, test: str | None, test_domains: list[str], share: float, seed: int
) -> tuple[Table, Table]:
    if test is not None and test_domains:
        raise SettingError("Give --test or --test-domains, not both.")
    if test is None:
        return table.split(test_domains or share, seed)
    from eqrm.data.tables.reading import read_test_table

    return table, read_test_table(test, table)


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
