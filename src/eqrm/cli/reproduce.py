"""``eqrm reproduce``: a table or figure of a paper, computed again and checked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.cli.commands import say
from eqrm.errors import SettingError
from eqrm.files.yaml_text import parse_settings
from eqrm.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from eqrm.reproductions.base import Report, Reproduction
    from eqrm.reproductions.outcome import Progress

SECONDS_BETWEEN_LINES = 30.0


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Name of a reproduction; see --list.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results and figures (default: NAME).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small, fast version.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List all names and exit.")] = False,
    write_docs: Annotated[
        Path | None, typer.Option(help="Also write the page NAME/README.md to this folder.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the reproduction, such as workers=4 or tables=flights,Chem97 of "
            "frontiers (repeatable).",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Dataset of a protocol such as domainbed; short for --set dataset=NAME."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Say which files are missing and where from, and stop."),
    ] = False,
) -> None:
    """Compute a table or figure of a paper again and compare its numbers with the expected ones.

    The exit code is 1 if a check fails, or files are missing (--check).
    """
    from rich.console import Console

    from eqrm.reproductions.base import write_page
    from eqrm.reproductions.registry import reproduction

    console = Console()
    if show_list:
        _print_list(console)
        return
    if name is None:
        raise SettingError(
            "A name is needed: eqrm reproduce NAME. 'eqrm reproduce --list' lists them."
        )
    given = parse_settings(settings or [])
    if dataset is not None:
        given["dataset"] = dataset
    chosen = reproduction(name, **given)
    size = "quick" if quick else "full"
    if check:
        _check(console, chosen, size)
        return
    folder = Path(chosen.name) if output is None else output
    try:
        with _progress_shown(console, chosen.name) as tell:
            report = chosen.run(folder, size, seed, tell)
    except KeyboardInterrupt:
        say(f"eqrm: Stopped. The same command does not repeat what {folder} keeps.", err=True)
        raise typer.Exit(130) from None
    _print_report(console, report, folder)
    if write_docs is not None:
        _say(console, f"Page: {write_page(report, write_docs / chosen.name)}")
    if not report.passed:
        raise typer.Exit(1)


@contextmanager
def _progress_shown(console: Console, name: str) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere, as in a log, a line every now and then."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Bars(*columns, console=console, transient=True) as bar:
            task = bar.add_task(name, total=1.0)
            yield lambda share, what: bar.update(task, completed=share, description=what)
        return
    told = time.monotonic()

    def tell(share: float, what: str) -> None:
        nonlocal told
        if time.monotonic() - told >= SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            say(f"{name}: {100.0 * share:.0f}%, {what}", err=True)

    yield tell


def _check(console: Console, chosen: Reproduction, size: str) -> None:
    missing = list(dict.fromkeys(chosen.missing(size)))
    for each in missing:
        _say(console, f"Missing: {each}")
    if missing:
        raise typer.Exit(1)
    _say(console, f"Nothing is missing: eqrm reproduce {chosen.name} can run.")


def _print_list(console: Console) -> None:
    from eqrm.reproductions.registry import reproduction, reproduction_names

    for name in reproduction_names():
        _say(console, f"{name:20} {reproduction(name).reproduces}")


def _print_report(console: Console, report: Report, folder: Path) -> None:
    for table in (each for each in report.outcome.tables if each.on_page):
        _say(console, f"{table.text()}\n")
    for check in report.outcome.checks:
        _say(console, str(check))
    if report.outcome.answer:
        _say(console, report.outcome.answer)
    for remark in report.outcome.remarks:
        _say(console, f"Note: {remark}")
    if report.no_pictures is not None:
        _say(console, f"No figures: {report.no_pictures}")
    _say(console, f"{report.verdict}; {report.cost}{report.steps}; results in {folder}")


def _say(console: Console, text: str) -> None:
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
