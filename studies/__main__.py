"""``python -m studies``: run a study, and compare its numbers with the expected ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.errors import EqrmError
from eqrm.files.yaml_text import parse_settings

if TYPE_CHECKING:
    from studies.base import Report, Study
    from studies.outcome import Progress

SECONDS_BETWEEN_LINES = 30.0
app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def run(
    name: Annotated[
        str | None, typer.Argument(help="Name of a study; all are listed without one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results and figures (default: NAME).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small, fast version.")] = False,
    write_docs: Annotated[
        Path | None, typer.Option(help="Also write the page NAME/README.md to this folder.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the study, such as workers=4 or tables=flights,Chem97 of frontiers "
            "(repeatable).",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Say which files are missing and where from, and stop."),
    ] = False,
) -> None:
    """Compute a table or figure of a paper, or a simulation, and check its numbers.

    The exit code is 1 if a check fails, or files are missing (--check).
    """
    from studies import registry
    from studies.base import write_page

    if name is None:
        for known in registry.study_names():
            typer.echo(f"{known:20} {registry.new_study(known).reproduces}")
        return
    chosen = registry.new_study(name, **parse_settings(settings or []))
    size = "quick" if quick else "full"
    if check:
        _check(chosen, size)
        return
    folder = Path(chosen.name) if output is None else output
    try:
        with _progress_shown(chosen.name) as tell:
            report = chosen.run(folder, size, seed, tell)
    except KeyboardInterrupt:
        typer.echo(
            f"studies: Stopped. The same command does not repeat what {folder} keeps.", err=True
        )
        raise typer.Exit(130) from None
    _print_report(report, folder)
    if write_docs is not None:
        typer.echo(f"Page: {write_page(report, write_docs / chosen.name)}")
    if not report.passed:
        raise typer.Exit(1)


@contextmanager
def _progress_shown(name: str) -> Iterator[Progress]:
    """A bar on a terminal; elsewhere, as in a log, a line every now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console()
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
            typer.echo(f"{name}: {100.0 * share:.0f}%, {what}", err=True)

    yield tell


def _check(chosen: Study, size: str) -> None:
    missing = list(dict.fromkeys(chosen.missing(size)))
    for each in missing:
        typer.echo(f"Missing: {each}")
    if missing:
        raise typer.Exit(1)
    typer.echo(f"Nothing is missing: python -m studies {chosen.name} can run.")


def _print_report(report: Report, folder: Path) -> None:
    for table in (each for each in report.outcome.tables if each.on_page):
        typer.echo(f"{table.text()}\n")
    for check in report.outcome.checks:
        typer.echo(check)
    if report.outcome.answer:
        typer.echo(report.outcome.answer)
    for remark in report.outcome.remarks:
        typer.echo(f"Note: {remark}")
    if report.no_pictures is not None:
        typer.echo(f"No figures: {report.no_pictures}")
    typer.echo(f"{report.verdict}; {report.cost}{report.steps}; results in {folder}")


def main() -> None:
    """Run the command line. A user error prints one line and exits with code 2."""
    try:
        app(prog_name="python -m studies")
    except (EqrmError, OSError) as error:
        typer.echo(f"studies: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
