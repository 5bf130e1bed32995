"""``eqrm table``: what a sweep found, under every selection rule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.checks import one_of
from eqrm.cli.options import SEVERAL, option, parsed_level, separated
from eqrm.errors import SettingError

if TYPE_CHECKING:
    from eqrm.sweeps.selection import SelectionRule


def table(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder of a sweep (eqrm sweep), or DomainBed's records: records.jsonl, also .gz, "
            "or the output folder of its sweep.",
        ),
    ],
    rule: Annotated[
        list[str] | None,
        option(
            "Selection rule: training-domain, leave-one-domain-out, oracle or quantile (default: "
            f"all). {SEVERAL}"
        ),
    ] = None,
    alpha: Annotated[str, option("Level of the selection rule quantile.")] = "0.9",
    checkpoints: Annotated[
        str | None,
        option("best or last: which checkpoints rules look at (default: best; the oracle: last)."),
    ] = None,
    metric: Annotated[
        str | None,
        option(
            "accuracy or risk: what rules judge by and what is reported (default: accuracy where "
            "it was recorded; the rule quantile judges by risk)."
        ),
    ] = None,
    levels: Annotated[
        list[str] | None,
        option(f"Levels of the quantile tables (default: 0,.25,.5,.75,.9,.99,1). {SEVERAL}"),
    ] = None,
    divisor: Annotated[
        str,
        option("Divisor of the variance over trials: trials, as in DomainBed, or trials-1."),
    ] = "trials",
    published: Annotated[
        bool, option("Show the paper's numbers beside those of the sweep.")
    ] = True,
    selected: Annotated[bool, option("Also list the selected runs.", None, "--selected")] = False,
    as_format: Annotated[
        str | None,
        option(
            "text, markdown, latex, csv or html (default: by the name of --output, else text).",
            None,
            "--format",
        ),
    ] = None,
    output: Annotated[Path | None, option("File to write (default: print).")] = None,
) -> None:
    """Tabulate the runs of a sweep: accuracies and risk quantiles on held-out domains.

    There is a table per dataset and selection rule, and one of averages over datasets. Missing
    runs are named.
    """
    from eqrm.files.writing import refuse_unwritable, write_text
    from eqrm.sweeps.domainbed_records import sweep_records
    from eqrm.sweeps.tables.formats import FORMATS
    from eqrm.sweeps.tables.grid import planned_places
    from eqrm.sweeps.tables.tabulating import LEVELS, TableSettings, sweep_tables

    write = FORMATS[_format(as_format, output)]
    if output is not None:
        refuse_unwritable(output)
    asked = [str(parsed_level(level, "--levels")) for level in separated(levels or [])]
    settings = TableSettings(metric, asked or LEVELS, divisor, published)
    rules = _rules(separated(rule or []), alpha, checkpoints, metric)
    found = sweep_tables(
        sweep_records(folder),
        rules,
        settings,
        planned_places(folder),
        planned_places(folder, pruned=True),
    )
    content = write(found, selected)
    if output is None:
        typer.echo(content)
    else:
        write_text(output, content + "\n")
        typer.echo(f"Wrote {output}.")


def _format(named: str | None, output: Path | None) -> str:
    from eqrm.sweeps.tables.formats import FORMATS, SUFFIXES

    if named is not None:
        return one_of(named, FORMATS, "format")
    if output is None:
        return "text"
    if output.suffix.lower() not in SUFFIXES:
        raise SettingError(
            f"The format of {output.name} is not known by its name: end it in "
            f"{', '.join(SUFFIXES)}, or use --format."
        )
    return SUFFIXES[output.suffix.lower()]


def _rules(
    names: list[str], alpha: str, checkpoints: str | None, metric: str | None
) -> dict[str, SelectionRule]:
    from eqrm.sweeps.selection import SELECTION_RULES

    level = parsed_level(alpha)
    found = {}
    for name in [SELECTION_RULES.name_of(each) for each in names] or list(SELECTION_RULES):
        known = SELECTION_RULES.settings(name)
        given: dict[str, Any] = {"alpha": str(level), "checkpoints": checkpoints, "metric": metric}
        wanted = {k: v for k, v in given.items() if v is not None and k in known}
        found[name] = SELECTION_RULES.make(name, given=wanted)
    return found
