"""What a user sees while training: a bar or lines, with the loss and quantiles of the risk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eqrm.errors import MissingExtraError
from eqrm.text import printable
from eqrm.training.held_out_risks import QUANTILES, HeldOutRisks


class Display:
    """A bar on the terminal, or nothing where it is not wanted."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar, self._task = bar, task
        self._risks = ""

    def step(self, step: int, phase: str, loss: float | None) -> None:
        """Move the bar; ``loss`` is None where it was not looked at."""
        if self._bar is None:
            return
        self._bar.update(self._task, completed=step, description=phase)
        if loss is not None:
            self._bar.update(self._task, numbers=f"loss {loss:.4g}  {self._risks}")

    def evaluated(self, risks: HeldOutRisks) -> None:
        """Show the quantiles of the risk over the domains of an evaluation."""
        self._risks = _quantiles(risks)


class Lines(Display):
    """A plain line per evaluation, and now and then where there are none: for files and pipes."""

    def __init__(self, tell: Callable[[str], None], steps: int, step: int) -> None:
        super().__init__()
        self._tell, self._steps = tell, steps
        self._step = self._told = step
        self._now = self._waiting = ""

    def step(self, step: int, phase: str, loss: float | None) -> None:
        """Keep the numbers; print them if a tenth of the run passed without a line."""
        if self._waiting:  # no evaluation came with that step
            self._line(self._waiting)
        self._step = step
        number = "" if loss is None else f"  loss {loss:.4g}"
        self._now = f"step {step} of {self._steps}  {phase}{number}"
        if loss is not None and step - self._told > self._steps / 10:
            self._waiting = self._now

    def evaluated(self, risks: HeldOutRisks) -> None:
        self._line(f"{self._now}  {_quantiles(risks)}")

    def _line(self, text: str) -> None:
        self._tell(text)
        self._told, self._waiting = self._step, ""


def _quantiles(risks: HeldOutRisks) -> str:
    quantiles = " ".join(f"{level:g}: {risks.quantile(level):.4g}" for level in QUANTILES)
    metrics = "".join(f"  {name} {value:.4g}" for name, value in risks.pooled.items())
    return f"{risks.split} risk {quantiles}{metrics}"


@contextmanager
def display(wanted: bool | Callable[[str], None], steps: int, step: int) -> Iterator[Display]:
    """A :class:`Display` for a run of ``steps`` steps that begins at ``step``.

    A bar, nothing, or lines passed to a function.
    """
    if not wanted:
        yield Display()
        return
    if callable(wanted):
        yield Lines(wanted, steps, step)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    words = TextColumn("{task.description}", markup=False)
    numbers = TextColumn("{task.fields[numbers]}", markup=False)
    columns = (words, BarColumn(bar_width=20), MofNCompleteColumn(), Remaining(), numbers)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Display(bar, bar.add_task("", total=steps, completed=step, numbers=""))


class Board:
    """TensorBoard's files, or nothing where they are not wanted or it is not installed."""

    def __init__(self, folder: Path | None, wanted: bool | None, step: int) -> None:
        self._writer: Any = None
        if folder is None or wanted is False:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            if wanted:
                raise MissingExtraError("tensorboard", "tensorboard", "tensorboard: true") from None
            return
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        if self._writer is not None:
            for name, value in numbers.items():
                self._writer.add_scalar(printable(name, lines=False), value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
