"""What the commands share: how an option is declared, lists of values, the command as typed."""

from __future__ import annotations

import csv
import math
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.errors import EqrmWarning, LevelError, SettingError
from eqrm.text import printable

if TYPE_CHECKING:
    from eqrm.level import Level


def say(text: object, *, err: bool = False) -> None:
    """Print a text, printable whatever the data in it: all that commands print."""
    typer.echo(printable(str(text)), err=err)


@contextmanager
def warnings_said() -> Iterator[None]:
    """Print warnings of the package as lines on standard error, each once.

    Python would print them with the file and the line of the source that gave them.
    """
    said = set[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("always", EqrmWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *at: Any, **more: Any) -> None:
            if not issubclass(category, EqrmWarning):
                others(message, category, *at, **more)
            elif str(message) not in said:
                said.add(str(message))
                say(f"Warning: {message}", err=True)

        warnings.showwarning = show
        yield


SEVERAL = "Separate several by commas, or repeat the option."


def option(text: str, panel: str | None = None, *names: str, metavar: str | None = None) -> Any:
    """An option with its help, in a panel of related options."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


DataRoot = Annotated[
    Path | None,
    option("Folder that holds the datasets (default: environment variable EQRM_DATA)."),
]
DomainColumns = Annotated[
    list[str] | None,
    option(
        "Column with the domain of each row. Repeat the option to join several columns; "
        "'filename' makes each file a domain.",
        "Data",
        metavar="COLUMN",
    ),
]
LabelColumn = Annotated[str | None, option("Column of labels.", "Data", metavar="COLUMN")]
PredictionColumn = Annotated[
    str | None,
    option(
        "Column of predictions, or 'p_{class}' for a column of probabilities per class.",
        "Data",
        metavar="COLUMN",
    ),
]
Within = Annotated[
    list[str] | None,
    option(
        "Column with the member inside the group that --domain names, such as the ward of a "
        "hospital. The members are the domains; certificates are about members of new groups.",
        "Data",
        metavar="COLUMN",
    ),
]
INSTEAD = {
    "backtest": "it compares domains one after the other. Join both columns (--domain GROUP "
    "--domain MEMBER), with --order COLUMN for their times",
    "recalibrate": "give the groups as domains (--domain GROUP), so that whole groups are held out",
    "watch": "it judges domains one after the other. Evaluate without --within, and join both "
    "columns (--domain GROUP --domain MEMBER), with --order COLUMN for their times",
}
"""What to do instead of --within, by command."""


def _refuse_within(context: typer.Context, given: list[str] | None) -> None:
    if given:
        name = context.info_name or ""
        raise SettingError(
            f"'eqrm {name}' knows no domains inside groups: {INSTEAD[name]}. For certificates "
            "about members of new groups, use 'eqrm evaluate --within'."
        )


NotWithin = Annotated[
    list[str] | None, typer.Option("--within", hidden=True, callback=_refuse_within)
]
Features = Annotated[
    list[str] | None, option(f"Columns to predict from (default: all others). {SEVERAL}", "Data")
]
Dropped = Annotated[list[str] | None, option(f"Columns to leave out. {SEVERAL}", "Data")]
Categories = Annotated[
    list[str] | None, option(f"Columns of numbers to read as categories. {SEVERAL}", "Data")
]
MissingValues = Annotated[
    list[str] | None,
    option(
        "Values that mean a missing one in every column, such as '?' or -999, besides empty cells "
        f"and NA. {SEVERAL}",
        "Data",
        "--missing-value",
    ),
]
MaxMissing = Annotated[
    float,
    option(
        "Largest share of missing values in a column of numbers or dates, from 0 to 1. Boosted "
        "trees take any share.",
        "Data",
    ),
]
SkipIncomplete = Annotated[
    bool,
    option(
        "Leave out rows whose target, domain, order or weight is missing (default: an error).",
        "Data",
        "--skip-incomplete",
    ),
]
RowWeight = Annotated[
    str | None,
    option(
        "Column with the weight of each row within its domain, a number of at least 0.",
        "Data",
        metavar="COLUMN",
    ),
]
ClassWeights = Annotated[
    list[str] | None,
    option(
        "Weights of classes: 'balanced' (all classes count the same over the training rows), or "
        f"CLASS=WEIGHT. {SEVERAL}",
        "Training",
        "--class-weight",
    ),
]
Weather = Annotated[
    bool, option("For 'flights': add the weather at departure.", "Data", "--weather")
]
TrainedLevels = Annotated[
    list[str] | None,
    option(f"Levels to train for, besides ERM (default: 0.9). {SEVERAL}", "Training"),
]
ModelSettings = Annotated[
    list[str] | None,
    option(
        "Setting of the model, as in docs/train.md; repeat the option for several.",
        "Training",
        "--set",
        metavar="NAME=VALUE",
    ),
]
HELD_OUT, SHARE = "Held-out domains", 0.5
TestDomains = Annotated[
    list[str] | None, option(f"Domains to hold out, by name. {SEVERAL}", HELD_OUT)
]
TestShare = Annotated[
    float | None,
    option(f"Share of the domains to hold out, drawn with --seed (default: {SHARE}).", HELD_OUT),
]
TestAfter = Annotated[
    str | None,
    option(
        "Hold out the domains that begin strictly after this day, month, moment or number.",
        HELD_OUT,
        metavar="DATE",
    ),
]
TestLast = Annotated[
    float | None,
    option("Share of the domains to hold out, the latest.", HELD_OUT, metavar="SHARE"),
]


TIME = "Domains in time"
RowTimes = Annotated[
    str | None,
    option(
        "Column with the time of each row, a date or a number, which orders the domains. Default: "
        "the domain, where it is a date.",
        TIME,
        "--order",
        metavar="COLUMN",
    ),
]
EvaluateAfter = Annotated[
    str | None,
    option(
        "Evaluate only the domains that begin strictly after this day, month, moment or number.",
        TIME,
        "--test-after",
        metavar="DATE",
    ),
]
EvaluateLast = Annotated[
    float | None,
    option(
        "Evaluate only this share of the domains, the latest.",
        TIME,
        "--test-last",
        metavar="SHARE",
    ),
]
Dependence = Annotated[
    int | None,
    option(
        "Add a certificate for domains that are independent if more than K places apart.",
        TIME,
        "--dependence",
        metavar="K",
    ),
]
Spells = Annotated[
    bool,
    option(
        "Add an approximate certificate for domains that come in spells of unknown length.",
        TIME,
        "--spells",
    ),
]
Recent = Annotated[
    float | None,
    option(
        "Add a bound for the next domain that weighs recent domains more: weights halve every "
        "HALF_LIFE domains. Not a certificate.",
        TIME,
        "--recent",
        metavar="HALF_LIFE",
    ),
]
SeenColumn = Annotated[
    str | None,
    option(
        "Column that says whether a model was trained on the row's domain, true or false. Such "
        "domains are left out (default: the column 'seen', if there is one).",
        "Data",
        "--seen",
        metavar="COLUMN",
    ),
]


def separated(given: Sequence[str]) -> list[str]:
    """The values of an option that was repeated or given with commas, as in a line of CSV.

    >>> separated([".5,.9", ".99"]), separated(['"height, cm",age'])
    (['.5', '.9', '.99'], ['height, cm', 'age'])
    """
    rows = csv.reader(given, skipinitialspace=True)
    return [value for row in rows for value in row if value]


def parsed_level(text: str, name: str = "--alpha") -> Level:
    """The level that an option holds.

    >>> parsed_level("1-e^-1000")
    Level(log_tail=-1000.0)
    """
    from eqrm.level import Level

    try:
        return Level.parse(text)
    except LevelError:
        raise LevelError(
            f"{name} must be a level: a number between 0 and 1, such as 0.9, or 1-e^-1000 for "
            f"levels very close to 1. Got {text!r}."
        ) from None


def inner_level(text: str, instead: str = "") -> Level:
    """A level of --alpha other than 0 and 1; ``instead`` of 1 says what to use.

    >>> inner_level("1")
    Traceback (most recent call last):
    ...
    eqrm.errors.LevelError: --alpha must be strictly between 0 and 1, got 1.
    """
    level = parsed_level(text)
    if level.alpha == 0.0 or level.log_tail == -math.inf:
        advice = f" {instead}" if instead and level.alpha else ""
        raise LevelError(f"--alpha must be strictly between 0 and 1, got {text}.{advice}")
    return level


def typed_command() -> str:
    """The command as it can be typed again."""
    return shlex.join(["eqrm", *sys.argv[1:]])
