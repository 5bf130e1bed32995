"""``eqrm data``: which datasets exist, where they come from, and how to get them."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqrm.cli.commands import PlainCommand, PlainGroup, say
from eqrm.cli.options import DataRoot
from eqrm.registry import folded_name
from eqrm.text import printable

if TYPE_CHECKING:
    from eqrm.data.datasets.downloads import Report
    from eqrm.data.datasets.registry import Published, Source

app = typer.Typer(cls=PlainGroup, help="List, describe and fetch datasets.", no_args_is_help=True)


@app.command("list", cls=PlainCommand)
def list_datasets(data_root: DataRoot = None) -> None:
    """List the datasets, and which of them the data root contains."""
    from rich.console import Console
    from rich.table import Table

    from eqrm.data.datasets.registry import catalogue, dataset_description

    root = _root_if_any(data_root)
    where = printable(str(root or "none (set EQRM_DATA or --data-root)"))
    table = Table(title=f"Data root: {where}")
    for column in ("name", "description", "size", "available"):
        table.add_column(column, overflow="fold")
    for key, entry in catalogue().items():
        for name in entry.datasets or (key,):
            table.add_row(name, entry.title, entry.size, _available(entry, root))
    for name in _not_fetched():
        table.add_row(name, dataset_description(name), "", "")
    Console().print(table)


@app.command("info", cls=PlainCommand)
def info(
    name: Annotated[str, typer.Argument(help="Name of a dataset; 'eqrm data list' shows them.")],
    data_root: DataRoot = None,
) -> None:
    """Describe a dataset: its source, licence, files and checksums, and its settings."""
    from eqrm.data.datasets.downloads import by_hand
    from eqrm.data.datasets.registry import BUILT_IN, published

    root = _root_if_any(data_root)
    own = [each for each in _not_fetched() if folded_name(each) == folded_name(name)]
    if own:
        where = "It ships with eqrm." if own[0] in BUILT_IN else "It reads your own files."
        lines = [f"{own[0]}: no download needed. {where}", *_dataset_lines(own[0])]
    else:
        key, entry = published(name)
        lines = [
            entry.title,
            f"size      {entry.size}",
            f"licence   {entry.licence}",
            f"homepage  {entry.homepage}",
            f"available {_available(entry, root)}",
        ]
        for source in entry.sources:
            lines += _source_lines(source)
        if not entry.found(root or Path("/nonexistent")):
            lines.append(by_hand(entry, root))
        for made in entry.datasets or (key,):
            lines += _dataset_lines(made)
    say("\n".join(lines))


@app.command("get", cls=PlainCommand)
def get(
    name: Annotated[str, typer.Argument(help="Name of a dataset; 'eqrm data list' shows them.")],
    data_root: DataRoot = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a mirror to answer.")] = 30.0,
) -> None:
    """Fetch a dataset, or say what to fetch by hand. An interrupted download is resumed."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from eqrm.data.datasets.data_root import data_root as root_of
    from eqrm.data.datasets.downloads import get_dataset
    from eqrm.data.datasets.registry import published

    root = root_of(data_root)
    key, _ = published(name)
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def begin(source: Source) -> Report:
            task = bars.add_task(source.file, total=None)
            return lambda there, total: bars.update(task, completed=there, total=total)

        try:
            new = get_dataset(name, root, begin, timeout)
        except KeyboardInterrupt:
            bars.stop()
            say(
                "Interrupted. The partial download is kept: run the command again to resume.",
                err=True,
            )
            raise typer.Exit(130) from None
    for path in new:
        say(f"{path}")
    say(f"{key} {'is now' if new else 'was already'} in the data root {root}")


def _root_if_any(named: Path | None) -> Path | None:
    from eqrm.data.datasets.data_root import data_root

    if named is None and not os.environ.get("EQRM_DATA"):
        return None
    return data_root(named)


def _available(entry: Published, root: Path | None) -> str:
    if root is None:
        return "no data root"
    return "yes" if entry.found(root) else "no"


def _not_fetched() -> list[str]:
    """The datasets that ship with eqrm, or read the user's files."""
    from eqrm.data.datasets.registry import DATASETS, catalogue

    fetched = {made for key, entry in catalogue().items() for made in (key, *entry.datasets)}
    return sorted(set(DATASETS) - fetched)


def _dataset_lines(name: str) -> list[str]:
    """What it is, and the settings that eqrm.dataset takes."""
    from eqrm.data.datasets.registry import dataset_description, dataset_settings

    settings = [
        f"  {key} (required)" if default is inspect.Parameter.empty else f"  {key} = {default!r}"
        for key, default in dataset_settings(name).items()
    ]
    return [f"eqrm.dataset({name!r}): {dataset_description(name)}", *settings]


def _source_lines(source: Source) -> list[str]:
    """The mirrors of a file, where it goes, and how it is checked."""
    checks = []
    if source.md5:
        inside = " of the uncompressed file" if source.file.endswith(".gz") else ""
        checks.append(f"md5{inside} {source.md5}")
    if source.size:
        checks.append(f"{source.size:,} bytes")
    where = f", unpacked into {source.unpack}/" if source.unpack else ""
    checked = ", ".join(checks) or "no checksum published"
    urls = (f"          {url}" for url in source.urls)
    return [f"file      {source.file}{where} ({checked})", *urls]
