"""Progress of a training: a bar on a terminal or in a notebook, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepInterrupted(KeyboardInterrupt):
    """Ctrl-C, and the step that it stopped."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step


class Inside(str):
    """What is told about the inside of a step, which is not a step of its own."""


@contextmanager
def steps_shown(total: int, *, shown: bool = True) -> Iterator[Callable[[str], None]]:
    """A bar, on standard error, for what calls the function with the name of each step.

    Where standard error is no terminal, a line every ``SILENCE`` seconds says what is being done.
    Ctrl-C becomes :class:`StepInterrupted`.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    notebook = "ipykernel" in sys.modules
    drawn = shown and (notebook or sys.stderr.isatty())
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=None if notebook else Console(stderr=True),
        transient=True,
        disable=not drawn,
    ) as bar:
        task = bar.add_task("", total=total)
        began = told = time.monotonic()

        def tell(step: str) -> None:
            nonlocal told
            inside = isinstance(step, Inside)
            now = time.monotonic()
            if shown and not drawn and now - told >= SILENCE:
                told = now
                print(f"{now - began:.0f} s: {step}", file=sys.stderr)
            bar.update(task, advance=0 if inside else 1, description=step)

        try:
            yield tell
        except KeyboardInterrupt:
            step = bar.tasks[0].description
            bar.stop()
            raise StepInterrupted(step) from None


SILENCE = 30.0
"""Seconds after which a line is printed where there is no bar."""
