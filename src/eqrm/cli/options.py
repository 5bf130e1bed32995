"""What the commands share: how an option is declared, lists of values, the command as typed."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import typer

SEVERAL = "Separate several by commas, or repeat the option."


def option(text: str, panel: str | None = None, *names: str, metavar: str | None = None) -> Any:
    """An option with its help, in a panel of related options."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


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
