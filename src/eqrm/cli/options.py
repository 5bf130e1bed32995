"""The options that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eqrm.cli.commands import option
from eqrm.errors import SettingError

SEVERAL = "Separate several by commas, or repeat the option."

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
ReadingThreads = Annotated[
    int | None, option("Threads for reading files, from 1 to 1,024 (default: all cores).", "Data")
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
        f"CLASS=WEIGHT, from 1e-6 to 1,000,000. {SEVERAL}",
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
