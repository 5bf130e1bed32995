"""The options that several commands have, each declared once."""

from __future__ import annotations

import inspect
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.cli.commands import option
from eqrm.errors import OPTIONS, SettingError
from eqrm.tabular.plan import SEVERAL as SEVERAL
from eqrm.tabular.plan import TrainingPlan


def declared(name: str) -> Any:
    """The option of a setting of :class:`TrainingPlan`, for the commands that share it."""
    about = TrainingPlan.__dataclass_fields__[name].metadata
    typed = f"--{OPTIONS.get(name, name.replace('_', '-'))}"
    return option(about["help"], about["panel"], typed, metavar=about.get("metavar"))


def declared_option(each: Field[Any]) -> inspect.Parameter:
    """A setting as a parameter of a command."""
    given = {"text": str, "number": float, "integer": int, "flag": bool}
    typed: Any = given.get(each.metadata["kind"], list[str])
    default = each.default if typed in given.values() else None
    return inspect.Parameter(
        each.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[typed if default is not None else typed | None, declared(each.name)],
    )


DomainColumns = Annotated[list[str] | None, declared("domain")]
Within = Annotated[list[str] | None, declared("within")]
Features = Annotated[list[str] | None, declared("features")]
Dropped = Annotated[list[str] | None, declared("drop")]
Categories = Annotated[list[str] | None, declared("categories")]
Weather = Annotated[bool, declared("weather")]
TrainedLevels = Annotated[list[str] | None, declared("levels")]
ModelSettings = Annotated[list[str] | None, declared("settings")]
TestAfter = Annotated[str | None, declared("test_after")]
TestLast = Annotated[float | None, declared("test_last")]

DataRoot = Annotated[
    Path | None,
    option("Folder that holds the datasets (default: environment variable EQRM_DATA)."),
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
ReadingThreads = Annotated[
    int | None, option("Threads for reading files, from 1 to 1,024 (default: all cores).", "Data")
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
HELD_OUT, SHARE = "Held-out domains", 0.5
TestDomains = Annotated[
    list[str] | None, option(f"Domains to hold out, by name. {SEVERAL}", HELD_OUT)
]
TestShare = Annotated[
    float | None,
    option(f"Share of the domains to hold out, drawn with --seed (default: {SHARE}).", HELD_OUT),
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
