"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def progress(items: Sequence[T], words: str) -> Iterable[T]:
    """The items, with a bar on standard error while they are worked on, if it is a terminal.

    >>> list(progress([1, 2], "Counting"))
    [1, 2]
    """
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, words, console=Console(stderr=True), transient=True)
