"""Options that take several values in a row: ``--alpha .5 .9 .99``.

Click's options take a fixed number of values, so the command line is spelt out before it is
parsed: ``--alpha .5 .9`` becomes ``--alpha .5 --alpha .9``. Repeating the option works too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from typer.core import TyperCommand

_LEVEL = re.compile(r"^[\d.,]+(e-?\d+)?$|^1\s*-\s*e", re.IGNORECASE)


def looks_like_levels(text: str) -> bool:
    """Whether a word belongs to a list of levels.

    >>> [looks_like_levels(text) for text in (".5", "0.5,0.9", "1-e^-1000", "flights")]
    [True, True, True, False]
    """
    return _LEVEL.match(text) is not None


def is_a_value(text: str) -> bool:
    """Whether a word is no option.

    >>> is_a_value("2013-01-01"), is_a_value("--seed")
    (True, False)
    """
    return not text.startswith("-")


def spelt_out(arguments: list[str], several: Mapping[str, Callable[[str], bool]]) -> list[str]:
    """Repeat an option before each of the values that follow it.

    >>> spelt_out(["--alpha", ".5", ".9", "flights"], {"--alpha": looks_like_levels})
    ['--alpha', '.5', '--alpha', '.9', 'flights']
    """
    written: list[str] = []
    option, values = None, 0
    for word in arguments:
        name = word.partition("=")[0]
        if name in several:
            option, values = name, int("=" in word)
        elif option is not None and values > 0 and several[option](word):
            written.append(option)
        elif option is not None and values == 0:
            values = 1
        else:
            option = None
        written.append(word)
    return written


class CommandWithLists(TyperCommand):
    """A command some of whose options take several values in a row."""

    several: Mapping[str, Callable[[str], bool]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Spell the options out, then parse as usual."""
        return super().parse_args(ctx, spelt_out(args, self.several))
