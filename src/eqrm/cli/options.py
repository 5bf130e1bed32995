"""What the commands share: how an option is declared, lists of values, the command as typed."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

SEVERAL = "Separate several by commas, or repeat the option."


def option(text: str, panel: str | None = None, *names: str, metavar: str | None = None) -> Any:
    """An option with its help, in a panel of related options."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


HELD_OUT, SHARE = "Held-out domains", 0.5
IN_TIME = ("--order", "--test-after", "--test-last")
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


def conflicting_splits(given: Mapping[str, Any]) -> list[str]:
    """What is wrong with options that choose the held-out domains in two ways."""
    named = [name for name, value in given.items() if value is not None]
    ways = [name for name in named if name != "--order"]
    if [name for name in named if name in IN_TIME] == ["--order"]:
        ways.append("--order")
    if len(ways) < 2:
        return []
    return [
        f"{', '.join(ways[:-1])} and {ways[-1]} cannot be combined: each of them chooses the "
        "held-out domains. Use one."
    ]


def separated(given: Sequence[str]) -> list[str]:
    """The values of an option that was repeated or given with commas, as in a line of CSV.

    >>> separated([".5,.9", ".99"]), separated(['"height, cm",age'])
    (['.5', '.9', '.99'], ['height, cm', 'age'])
    """
    rows = csv.reader(given, skipinitialspace=True)
    return [value for row in rows for value in row if value]


def typed_command() -> str:
    """The command as it can be typed again."""
    return shlex.join(["eqrm", *sys.argv[1:]])
