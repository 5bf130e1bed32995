"""``eqrm table``: what a sweep found, under every selection rule."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.checks import check_all, one_of
from eqrm.cli.commands import option, parsed_level, say, separated
from eqrm.cli.options import SEVERAL
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
            "accuracy, risk, or a metric of training.metrics (macro-f1, average-precision, "
            "roc-auc): what rules judge by and what is reported (default: accuracy where it was "
            "recorded; the rule quantile judges by risk)."
        ),
    ] = None,
    pooled: Annotated[
        bool,
        option(
            "The metric of all examples together, as WILDS has it, not its mean over domains: for "
            "the rule training-domain and what is reported. Needs --metric.",
            None,
            "--pooled",
        ),
    ] = False,
    quantiles: Annotated[
        list[str] | None,
        option(f"Quantiles in the tables (default: 0, .25, .5, .75, .9, .99, 1). {SEVERAL}"),
    ] = None,
    published: Annotated[
        bool, option("Show the paper's numbers beside those of the sweep.")
    ] = True,
    selected: Annotated[bool, option("Also list the selected runs.", None, "--selected")] = False,
    as_format: Annotated[
        str | None,
        option(
            "text, markdown, latex or csv (default: by the name of --output, else text).",
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
    from eqrm.sweeps.records import sweep_records
    from eqrm.sweeps.selection import SELECTION_RULES
    from eqrm.sweeps.tables.formats import FORMATS
    from eqrm.sweeps.tables.grid import planned_places
    from eqrm.sweeps.tables.tabulating import LEVELS, TableSettings, sweep_tables

    asked = separated(quantiles or [])
    names = separated(rule or []) or SELECTION_RULES
    chosen = [partial(_rule, name, alpha, checkpoints, metric, pooled) for name in names]
    check_all(
        lambda: _format(as_format, output),
        lambda: None if output is None else refuse_unwritable(output),
        *(partial(parsed_level, level, "--quantiles") for level in asked),
        lambda: TableSettings(metric, pooled=pooled),
        lambda: parsed_level(alpha),
        *chosen,
    )
    write = FORMATS[_format(as_format, output)]
    settings = TableSettings(metric, asked or LEVELS, published, pooled)
    rules = dict(rule() for rule in chosen)
    found = sweep_tables(sweep_records(folder), rules, settings, planned_places(folder))
    content = write(found, selected)
    if output is None:
        say(content)
    else:
        write_text(output, content + "\n")
        say(f"Wrote {output}.")


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


def _rule(
    name: str, alpha: str, checkpoints: str | None, metric: str | None, pooled: bool
) -> tuple[str, SelectionRule]:
    """A selection rule under its registered name, with those of the options that it has."""
    from eqrm.sweeps.selection import SELECTION_RULES

    known = SELECTION_RULES.settings(name)
    level = str(parsed_level(alpha))
    given: dict[str, Any] = {"alpha": level, "checkpoints": checkpoints, "metric": metric}
    given["pooled"] = pooled or None
    wanted = {k: v for k, v in given.items() if v is not None and k in known}
    return SELECTION_RULES.name_of(name), SELECTION_RULES.make(name, given=wanted)
