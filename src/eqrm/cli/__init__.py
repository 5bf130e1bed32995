"""The command line: one file per command, put together here.

Commands import what they need when they run, so that ``eqrm --help`` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

import eqrm
from eqrm.cli import (
    backtest,
    data,
    figure,
    plan,
    predict,
    recalibrate,
    sweep,
    table,
    train,
    train_network,
    watch,
)
from eqrm.cli.commands import say, warnings_said
from eqrm.cli.evaluating import compare, evaluate
from eqrm.errors import EqrmError
from eqrm.files.writing import is_full_disk
from eqrm.text import printable

app = typer.Typer(
    name="eqrm",
    help="Train and evaluate models for domains that they have never seen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("backtest")(backtest.backtest)
app.command("recalibrate")(recalibrate.recalibrate)
app.command("watch")(watch.watch)
app.command("plan")(plan.plan)
app.command("figure")(figure.figure)
app.command("train-network")(train_network.train_network)
app.add_typer(sweep.app, name="sweep")
app.command("table")(table.table)
app.add_typer(data.app, name="data")


@app.command("reproduce", hidden=True, context_settings={"ignore_unknown_options": True})
def _reproduce(given: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Say where the studies are, which were run by this command."""
    say("The studies are beside the package: run 'python -m studies' in a checkout of eqrm.")
    raise typer.Exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"eqrm {eqrm.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Handle the options that belong to no command, and what every command has."""
    context.with_resource(warnings_said())


def main() -> None:
    """Run the command line. A user error prints one line and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # one of ASCII cannot print the help
            stream.reconfigure(errors="backslashreplace")
    for argument in sys.argv[1:]:
        if printable(argument) != argument.replace("\t", "\\u0009"):  # a name may hold a tab
            say(
                f"eqrm: The argument {argument!r} has control characters. Rename the file or "
                "the column that it names.",
                err=True,
            )
            sys.exit(2)
    try:
        app(prog_name="eqrm")
    except EqrmError as error:
        if os.environ.get("RANK", "0") == "0":  # of several processes, one says it
            say(f"eqrm: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        # A file that cannot be read or written: the path is the user's, and named by the error.
        advice = "Check the path and its permissions."
        if is_full_disk(error):
            advice = "The disk is full: make room, and run the same command again."
        say(f"eqrm: {error}. {advice}", err=True)
        sys.exit(2)
