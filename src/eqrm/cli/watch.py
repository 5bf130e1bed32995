"""``eqrm watch``: does a certificate still hold for the domains that come?"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from eqrm.checks import CONFIDENCE
from eqrm.cli.commands import column, inner_level, option, say, typed_command
from eqrm.errors import SettingError

BEGIN, DATA, NEW = "With --start or --restart", "Columns of new files", "New domains"


COMPLETE = (
    "Which of the new domains have all their rows and are judged: all, or earlier (all but the "
    "latest, whose rows are given again later)."
)
START = (
    "Start a watch over a certificate on these domains: evaluation.json of 'eqrm train', or what "
    "'eqrm evaluate --format json --output' wrote."
)
RESTART = (
    "Go on with a new certificate, as after an alarm. The history is kept, and options that are "
    "not given stay as they are."
)
CONFIDENCE_TEXT = (
    f"Confidence level of the certificate, {CONFIDENCE.words} (default: that of the file, or 0.95)."
)
DELTA = "Largest probability of a false alarm, however long the watch lasts (default: 0.05)."
DEPENDENCE = "Domains more than this many places apart are independent (default: 0)."
DOMAIN = "Column with the domain of each row. Repeat the option to join several columns."
PREDICTION = "Column of predictions, or 'p_{class}' for a column per class."
METRIC = "Loss of predictions (default: that of the certificate)."
CLIP = "Clip probabilities to [CLIP, 1 - CLIP] in the log-loss, as in the evaluation."


def watch(
    context: typer.Context,
    state: Annotated[
        Path, typer.Argument(help="File that keeps the watch; --start creates it.", metavar="STATE")
    ],
    new: Annotated[
        list[str] | None,
        option(
            "CSV or Parquet file, pattern or folder with the rows of new domains. Repeat the "
            "option for several.",
            NEW,
            metavar="FILE",
        ),
    ] = None,
    complete: Annotated[str, option(COMPLETE, NEW)] = "all",
    start: Annotated[Path | None, option(START, BEGIN, metavar="FILE")] = None,
    restart: Annotated[Path | None, option(RESTART, BEGIN, metavar="FILE")] = None,
    model: Annotated[
        str | None, option("Model whose certificate is watched, if there are several.", BEGIN)
    ] = None,
    alpha: Annotated[
        str | None, option("Level of the certificate (default: that of the file, or 0.9).", BEGIN)
    ] = None,
    confidence: Annotated[float | None, option(CONFIDENCE_TEXT, BEGIN)] = None,
    delta: Annotated[float | None, option(DELTA, BEGIN)] = None,
    dependence: Annotated[int | None, option(DEPENDENCE, BEGIN)] = None,
    domain: Annotated[list[str] | None, column(DOMAIN, DATA)] = None,
    loss: Annotated[str | None, column("Column of losses.", DATA)] = None,
    target: Annotated[str | None, column("Column of what is predicted.", DATA)] = None,
    prediction: Annotated[str | None, column(PREDICTION, DATA)] = None,
    metric: Annotated[str | None, option(METRIC, DATA)] = None,
    clip: Annotated[float | None, option(CLIP, DATA)] = None,
    order: Annotated[
        str | None, column("Column with the time of each row (default: the domain itself).", DATA)
    ] = None,
    page: Annotated[
        Path | None, option("HTML page to write, ending in .html (default: STATE.html).", "Output")
    ] = None,
) -> None:
    """Watch whether a certificate still holds. Exit code 0: holds, 3: suspicious, 4: broken."""
    from eqrm.evaluation.watching.claim import WatchSettings
    from eqrm.evaluation.watching.job import EXIT_CODES, run_watch, watch_in_words, write_watch_page
    from eqrm.files.writing import refuse_unwritable

    for place in filter(None, (start, restart)):
        if place.is_dir():
            file = place / "kept-aside.json"
            raise SettingError(f"{place} is a folder. Give what eqrm train --certify wrote: {file}")
    refuse_unwritable(state)
    shown = page or state.with_name(f"{state.name}.html")
    if shown.suffix.lower() not in (".html", ".htm") or shown.resolve() == state.resolve():
        raise SettingError(
            f"--page must be a file of its own that ends in .html, got {shown}: pages replace what "
            "was there, and must not replace the state, an evaluation or data."
        )
    refuse_unwritable(shown)
    said = {each.name: context.params[each.name] for each in fields(WatchSettings)}
    said["domain"] = tuple(domain) if domain else None
    said["alpha"] = None if alpha is None else inner_level(alpha)
    found = run_watch(
        state, WatchSettings(**said), start=start, restart=restart, new=new or (), complete=complete
    )
    say(f"{watch_in_words(found)}\n")  # whatever happens to the page
    write_watch_page(found.state, shown, typed_command())
    say(f"Page: {shown}")
    raise typer.Exit(EXIT_CODES[found.state.report.verdict])
