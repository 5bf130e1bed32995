"""The command line: one file per command, put together here.

Commands import what they need when they run, so that ``eqrm --help`` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import eqrm
from eqrm.cli import (
    backtest,
    compare,
    control,
    data,
    evaluate,
    figure,
    plan,
    recalibrate,
    sweep,
    table,
    train,
    train_network,
    watch,
)
from eqrm.cli.commands import PlainCommand, PlainGroup, say, warnings_said
from eqrm.errors import EqrmError, naming_torch, settings_as_options
from eqrm.files.writing import is_full_disk
from eqrm.text import printable

app = typer.Typer(
    cls=PlainGroup,
    name="eqrm",
    help="Train and evaluate models for domains that they have never seen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, dict[str, tuple[Callable[..., None] | typer.Typer, str]]] = {
    "Start here": {
        "train": (train.train, "Train on a table and get the best model for new domains."),
        "predict": (train.predict, "Predict for the rows of a table by a trained model."),
        "evaluate": (evaluate.evaluate, "Judge predictions of any model, domain by domain."),
    },
    "Models you have": {
        "compare": (compare.compare, "Rank models by their risk on the same domains."),
        "control": (control.control, "Find the setting that meets a requirement on new domains."),
        "recalibrate": (recalibrate.recalibrate, "Correct predictions to suit more domains."),
        "figure": (figure.figure, "Draw the distribution of your risks over domains."),
    },
    "Domains in time": {
        "backtest": (backtest.backtest, "Train on past domains and test on later ones."),
        "watch": (watch.watch, "Check whether a certificate still holds."),
        "plan": (plan.plan, "Compute how many domains a certificate needs."),
    },
    "Networks and sweeps": {
        "train-network": (train_network.train_network, "Train a network from a YAML file."),
        "sweep": (sweep.app, "Train all runs of a plan, here or on a cluster."),
        "table": (table.table, "Tabulate the runs of a sweep."),
        "data": (data.app, "List, describe and fetch datasets."),
    },
}
"""What ``eqrm --help`` lists: commands by panel, each with one line."""
for _panel, _commands in COMMANDS.items():
    for _name, (_made, _line) in _commands.items():
        if isinstance(_made, typer.Typer):
            app.add_typer(_made, name=_name, short_help=_line, rich_help_panel=_panel)
        else:
            app.command(_name, cls=PlainCommand, short_help=_line, rich_help_panel=_panel)(_made)


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
    context.with_resource(settings_as_options())


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
        with naming_torch("This command"):
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
