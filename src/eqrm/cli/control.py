"""``eqrm control``: from a requirement to the setting at which new domains meet it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.checks import one_of
from eqrm.cli import options
from eqrm.cli.commands import column, inner_level, option, refuse_places, say
from eqrm.cli.options import DATA, REPEAT, confidence_of, declared

LOSS, HOW = "With 'loss <= …'", "Output"
FORMATS = ("text", "json")
REQUIRE = (
    "What must hold in a domain: 'wrong <= 5%', 'wrong among answered <= 5%', 'coverage >= 90%', "
    "'missed <= 10%', 'false alarms <= 5%' or 'loss <= 0.4'."
)
PREDICTIONS = (
    "Column of predictions, 'p_{class}' for a column of probabilities per class, or LOWER:UPPER "
    f"for the ends of intervals. {REPEAT}"
)
SCORE = "How sets and intervals are made: lac, aps or intervals (default: by the predictions)."
GIVEN = (
    *("target", "score", "scale", "losses", "setting", "within", "seen", "order", "true"),
    *("confidence", "dependence", "spells", "recent", "common_domains", "test_after", "test_last"),
    *("threads", "memory"),
)
"""Keywords of :func:`eqrm.control` that are given as they are."""


def control(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV or Parquet files, folders, or patterns such as 'parts/*.parquet', with "
            "domains that the models were not trained on."
        ),
    ],
    require: Annotated[str, option(REQUIRE, metavar="REQUIREMENT")],
    domains: options.DomainColumns = None,
    target: options.Target = None,
    predictions: Annotated[
        list[str] | None, option(PREDICTIONS, DATA, "--prediction", metavar="[NAME=]COLUMN")
    ] = None,
    alpha: Annotated[str, option("Share of new domains that must meet the requirement.")] = "0.9",
    confidence: Annotated[float, confidence_of("the guarantee")] = 0.95,
    true: Annotated[
        bool,
        option("Guarantee the true share of a domain, not the measured one.", None, "--true"),
    ] = False,
    score: Annotated[str | None, option(SCORE)] = None,
    scale: Annotated[
        str | None, column("Column of the unit of each row in which intervals are widened.", DATA)
    ] = None,
    losses: Annotated[
        list[str] | None,
        option(
            "Column of losses. Repeat it for several models.",
            LOSS,
            "--loss",
            metavar="[NAME=]COLUMN",
        ),
    ] = None,
    setting: Annotated[str | None, column("Column of the setting of each row.", LOSS)] = None,
    within: Annotated[list[str] | None, declared("within")] = None,
    seen: options.Seen = None,
    common_domains: options.CommonDomains = False,
    order: options.Order = None,
    test_after: options.TestAfter = None,
    test_last: options.TestLast = None,
    dependence: options.Dependence = None,
    spells: options.Spells = False,
    recent: options.Recent = None,
    threads: options.Threads = None,
    memory: options.Memory = "600MB",
    save: Annotated[
        Path | None,
        option(
            "File to write the operating point to, for 'eqrm predict --control' and 'eqrm watch'.",
            HOW,
            metavar="FILE",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        option("Picture to draw, .svg, .pdf or .png: limits against what is kept.", HOW),
    ] = None,
    as_format: Annotated[str, option("text or json.", HOW, "--format")] = "text",
) -> None:
    """Find when to answer, how wide an interval or which threshold serves new domains.

    The setting is such that, with the confidence asked for, at least a share alpha of new
    domains meet the requirement. Of several models the one that keeps most is chosen: most rows
    answered, the narrowest intervals, the smallest sets, the fewest alarms.
    """
    from eqrm.evaluation.controlling.control import control as run
    from eqrm.evaluation.presenting.plots import figure_format, new_figure, save_figure

    one_of(as_format, FORMATS, "format")
    if figure is not None:
        figure_format(figure)
    refuse_places({"--save": save, "--figure": figure}, files)
    given: dict[str, Any] = {name: context.params[name] for name in GIVEN}
    given |= {name: None for name, value in given.items() if value == ()}
    point = run(
        list(files),
        predictions or None,
        domains or None,
        require=require,
        alpha=inner_level(alpha),
        progress=sys.stderr.isatty(),
        **given,
    )
    if save is not None:
        point.save(save)
    if figure is not None:
        drawn = new_figure(width=5.2, height=3.4)
        point.plot(drawn.subplots())
        save_figure(drawn, figure)
    if as_format == "json":
        say(json.dumps(point.to_dict(), indent=1, ensure_ascii=False))
        return
    say(point)
    if save is not None:
        unwatched = (losses, true, spells, recent, scale)
        used = " (for eqrm predict --control, and eqrm watch --start)" * (not any(unwatched))
        say(f"\nOperating point: {save}{used}")
