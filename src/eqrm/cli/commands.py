"""What every command is made with: text that is printed, options, lists of values, levels."""

from __future__ import annotations

import csv
import math
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from eqrm.errors import EqrmWarning, LevelError, SettingError
from eqrm.text import nearest, printable

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


def option(text: str, panel: str | None = None, *names: str, metavar: str | None = None) -> Any:
    """An option with its help, in a panel of related options."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


def column(text: str, panel: str | None = None, *names: str) -> Any:
    """An option that names a column."""
    return option(text, panel, *names, metavar="COLUMN")


class _PlainHelp:
    """Help in whole paragraphs, without types where they say nothing: of flags, and of lists."""

    def __init__(self, *given: Any, help: str | None = None, **more: Any) -> None:
        paragraphs = (" ".join(part.split()) for part in (help or "").split("\n\n"))
        more["help"] = "\n\n".join(paragraphs) or None
        super().__init__(*given, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Suggest an option as messages of Python do, instead of by its spelling alone."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc, no-any-return]
        except Exception as error:  # NoSuchOption is click's, or typer's own copy of it
            if hasattr(error, "possibilities"):
                options = [name for each in self.get_params(ctx) for name in each.opts]
                error.possibilities = nearest(getattr(error, "option_name", ""), options)
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Name the values of options and arguments as the help shows them."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if parameter.metavar is None:
                if parameter.param_type_name == "argument":
                    parameter.metavar = parameter.name.upper()
                elif parameter.is_flag:
                    parameter.metavar = ""
                elif parameter.multiple:
                    parameter.metavar = "VALUES"
        return found


class PlainCommand(_PlainHelp, TyperCommand):
    """A command with such a help."""


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands with such a help."""


def separated(given: Sequence[str]) -> list[str]:
    """The values of an option that was repeated or given with commas, as in a line of CSV."""
    rows = csv.reader(given, skipinitialspace=True)
    return [value for row in rows for value in row if value]


def parsed_level(text: str, name: str = "--alpha") -> Level:
    """The level that an option holds."""
    from eqrm.level import Level

    try:
        return Level.parse(text)
    except LevelError:
        raise LevelError(
            f"{name} must be a level: a number between 0 and 1, such as 0.9, or 1-e^-1000 for "
            f"levels very close to 1. Got {text!r}."
        ) from None


def inner_level(text: str, instead: str = "") -> Level:
    """A level of --alpha other than 0 and 1; ``instead`` of 1 says what to use."""
    level = parsed_level(text)
    if level.alpha == 0.0 or level.log_tail == -math.inf:
        advice = f" {instead}" if instead and level.alpha else ""
        raise LevelError(f"--alpha must be strictly between 0 and 1, got {text}.{advice}")
    return level


def refuse_places(places: Mapping[str, Path | None], data: Sequence[str]) -> None:
    """Refuse files to write, by their options, that cannot be written or are in use."""
    from eqrm.data.tables.files import find_files
    from eqrm.files.writing import refuse_unwritable

    given = {name: path for name, path in places.items() if path is not None}
    inputs = {path.resolve() for path in find_files(data)} if given else set()
    others: dict[Path, str] = {}
    for name, path in given.items():
        refuse_unwritable(path)
        if path.resolve() in inputs:
            raise SettingError(f"{path} holds the data. Choose another file to write to.")
        if path.resolve() in others:
            raise SettingError(
                f"{others[path.resolve()]} and {name} are the same file. Choose two."
            )
        others[path.resolve()] = name


def typed_command() -> str:
    """The command as it can be typed again."""
    return shlex.join(["eqrm", *sys.argv[1:]])
