"""Progress of a training: a bar on a terminal or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepInterrupted(KeyboardInterrupt):
    """Ctrl-C, and the step that it stopped."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step


@contextmanager
def steps_shown(total: int, *, shown: bool = True) -> Iterator[Callable[[str], None]]:
    """A bar, on standard error, for what calls the function with the name of each step.

    Ctrl-C becomes :class:`StepInterrupted`.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    notebook = "ipykernel" in sys.modules
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=None if notebook else Console(stderr=True),
        transient=True,
        disable=not shown or not (notebook or sys.stderr.isatty()),
    ) as bar:
        task = bar.add_task("", total=total)

        def tell(step: str) -> None:
            advance = 0 if step.startswith(INSIDE) else 1
            bar.update(task, advance=advance, description=step.removeprefix(INSIDE))

        try:
            yield tell
        except KeyboardInterrupt:
            step = bar.tasks[0].description
            bar.stop()
            raise StepInterrupted(step) from None


INSIDE = "\N{ZERO WIDTH SPACE}"
"""Before what is told about the inside of a step, which is not a step of its own."""
