"""``eqrm evaluate``: how the risk of any model varies over domains."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.checks import CONFIDENCE, one_of
from eqrm.cli import options
from eqrm.cli.commands import (
    column,
    inner_level,
    option,
    parsed_level,
    refuse_places,
    say,
    separated,
    typed_command,
)
from eqrm.cli.options import DATA, REPEAT, SEVERAL, confidence_of, declared
from eqrm.errors import Setting, SettingError
from eqrm.evaluation.measuring.metrics import METRICS_IN_HELP
from eqrm.text import counted, printable, typed

if TYPE_CHECKING:
    from eqrm.evaluation.evaluation import Evaluation
    from eqrm.evaluation.presenting.risk_table import RiskTable
    from eqrm.evaluation.presenting.summary import Summary

FORMATS = ("text", "markdown", "latex", "csv", "json")
LOSS, TABLE, HOW = "Losses or predictions", "With --aggregated", "Output"
PARTS = "Parts of the rows, on several machines"
COLUMNS = (
    *("domains", "within", "losses", "target", "predictions"),
    *("aggregated", "model", "seen", "order"),
)
MEASURED = (*COLUMNS, "metric", "clip", "threads", "memory")
LATER = ("common_domains", "references", "test_after", "test_last")
"""Keywords of :func:`eqrm.evaluate`: what is measured, and what is made of it."""


def evaluate(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            help="CSV or Parquet files, folders, or patterns such as 'parts/*.parquet'; with "
            "--merge, files that --partial wrote."
        ),
    ],
    domains: options.DomainColumns = None,
    compare: Annotated[
        list[str] | None,
        option(
            f"File with the same columns for another model. {REPEAT}", DATA, metavar="[NAME=]FILE"
        ),
    ] = None,
    common_domains: options.CommonDomains = False,
    within: Annotated[list[str] | None, declared("within")] = None,
    seen: options.Seen = None,
    threads: options.Threads = None,
    memory: options.Memory = "600MB",
    losses: Annotated[
        list[str] | None,
        option(f"Column of losses. {REPEAT}", LOSS, "--loss", metavar="[NAME=]COLUMN"),
    ] = None,
    target: options.Target = None,
    predictions: Annotated[
        list[str] | None,
        option(f"{options.PREDICTION} {REPEAT}", LOSS, "--prediction", metavar="[NAME=]COLUMN"),
    ] = None,
    metric: Annotated[
        str,
        option(
            f"Loss of predictions: {METRICS_IN_HELP}; or a metric of each "
            "domain: accuracy, macro-f1, average-precision or roc-auc.",
            LOSS,
        ),
    ] = "log-loss",
    references: Annotated[
        bool | None,
        option(
            "Compare predictions with constants and with their own recalibration for --alpha "
            "(default: yes; recalibration only for up to 2 million predictions).",
            LOSS,
        ),
    ] = None,
    clip: Annotated[float, option(options.CLIP, LOSS)] = 0.0,
    aggregated: Annotated[
        bool,
        option(
            "The files hold the number of examples, mean loss and variance per domain. Several "
            "rows of one domain are merged.",
            TABLE,
            "--aggregated",
        ),
    ] = False,
    count: Annotated[str, column("Number of examples.", TABLE)] = "n",
    mean: Annotated[str, column("Mean of the losses.", TABLE)] = "mean",
    variance: Annotated[str, column("Variance of the losses (divisor n - 1).", TABLE)] = "variance",
    model: Annotated[str | None, column("Name of the model, if there are several.", TABLE)] = None,
    order: options.Order = None,
    test_after: options.TestAfter = None,
    test_last: options.TestLast = None,
    partial: Annotated[
        Path | None,
        option(
            "The files are a part of the rows: write what was measured to this JSON file, to be "
            "merged with other parts.",
            PARTS,
            metavar="FILE",
        ),
    ] = None,
    merge: Annotated[
        bool,
        option("Merge the parts that --partial wrote, and report on all rows.", PARTS, "--merge"),
    ] = False,
    quantiles: Annotated[
        list[str] | None,
        option(
            f"Levels of the quantiles (default: 0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1). {SEVERAL}",
            HOW,
            metavar="LEVELS",
        ),
    ] = None,
    superquantiles: Annotated[
        list[str] | None,
        option(
            f"Levels of the averages of the worst domains (default: 0.9, 0.95, 0.99). {SEVERAL}",
            HOW,
            metavar="LEVELS",
        ),
    ] = None,
    dependence: options.Dependence = None,
    spells: options.Spells = False,
    recent: options.Recent = None,
    alpha: Annotated[str, option("Level of certificates and references.", HOW)] = "0.9",
    confidence: Annotated[float, confidence_of("intervals and certificates", HOW)] = 0.95,
    worst: Annotated[int, option("Number of worst domains to list per model.", HOW)] = 5,
    intervals: Annotated[
        bool | None,
        option(
            "Show confidence intervals in the table (default: yes, except in LaTeX).",
            HOW,
        ),
    ] = None,
    format: Annotated[
        str, option("Format of the table: text, markdown, latex, csv or json.", HOW)
    ] = "text",
    output: Annotated[
        Path | None, option("File to write the table to, instead of printing it.", HOW)
    ] = None,
    report: Annotated[Path | None, option("File to write an HTML report to.", HOW)] = None,
    figures: Annotated[Path | None, option("Folder to write SVG and PDF figures to.", HOW)] = None,
) -> None:
    """Report how the risk of models varies over domains, and bound it for new domains."""
    from eqrm.evaluation.evaluate import evaluate as run
    from eqrm.evaluation.inference.in_time.ordered import TimeBounds
    from eqrm.evaluation.inference.risk_checks import checked_alpha
    from eqrm.evaluation.parts import find_parts, merge_parts
    from eqrm.evaluation.presenting.summary import summarised
    from eqrm.tabular.output_folder import listed_files

    one_of(format, FORMATS, "format")
    inputs = [] if merge else [*files, *(_named_file(other)[1] for other in compare or [])]
    trained = next((each for each in map(Path, inputs) if listed_files(each)), None)
    if trained is not None:
        raise SettingError(
            f"{trained} is the folder of a training, which has evaluated its models: open "
            f"{trained / 'report.html'}, or use eqrm compare {typed(trained)}."
        )
    refuse_places({"--output": output, "--report": report, "--partial": partial}, inputs)
    checked_alpha(certified := inner_level(alpha))  # before hours of reading
    CONFIDENCE.check(confidence, "--confidence")
    in_time = TimeBounds(dependence, spells, recent)
    asked: dict[str, Any] = {
        name: [parsed_level(level, f"--{name}") for level in separated(given)]
        for name, given in (("quantiles", quantiles), ("superquantiles", superquantiles))
        if given is not None
    }
    given = context.params
    measured: dict[str, Any] = {"progress": sys.stderr.isatty()}
    for name in MEASURED:  # options that may be repeated and were not given are ()
        measured[name] = None if given[name] == () else given[name]
    if aggregated:
        measured["columns"] = {"count": count, "mean": mean, "variance": variance}
    later: dict[str, Any] = {name: given[name] for name in LATER} | {"alpha": certified}
    if merge:
        _refuse_measuring(given)
        found = merge_parts(find_parts(files), **later)
    else:
        columns = [*(losses or []), *(predictions or [])]
        data = _data(files, compare or [], columns)
        if partial is not None:
            in_text = (output, report, figures, test_after, test_last, *in_time.asked)
            _write_part(partial, data, measured, in_text)
            return
        found = run(data, **measured, **later)
    table = found.risk_table(**asked, confidence=confidence, worst=worst)
    summary = summarised(found, certified, confidence, in_time=in_time)
    text = _formatted(found, table, summary, format, intervals)
    _write(found, table, summary, text, (output, report, figures))
    if report is not None:
        say(f"Report: {report}", err=True)
    if format != "text" and found.left_out:
        say(found.left_out.strip(), err=True)
    if output is None:
        say(text)


def _write_part(path: Path, data: Any, measured: dict[str, Any], others: Sequence[object]) -> None:
    """Measure a part of the rows, and say what it holds."""
    from eqrm.evaluation.parts import evaluate_part

    if any(other is not None for other in others):
        raise SettingError(
            "--partial writes what was measured on a part of the rows. Leave out --output, "
            "--report, --figures, and options that choose later domains or bounds in time: use "
            "them with --merge."
        )
    part = evaluate_part(data, **measured)
    part.write(path)
    domains = len(next(iter(part.models.values())))
    say(f"{part.examples:,} examples in {counted(domains, 'domain')}: {path}")


def _refuse_measuring(given: Mapping[str, Any]) -> None:
    """Raise if options are given that measure, beside parts that were measured."""
    said = [str(Setting(name)) for name in (*COLUMNS, "partial", "compare") if given[name]]
    if said:
        raise SettingError(
            f"--merge reads what was measured from the parts. Leave out {', '.join(said)}."
        )


def _write(
    found: Evaluation,
    table: RiskTable,
    summary: Summary,
    text: str,
    places: tuple[Path | None, Path | None, Path | None],
) -> None:
    """Write the table, the report and the figures that were asked for: all of them or none."""
    from eqrm.evaluation.presenting.report import write_report
    from eqrm.files.writing import whole_file

    output, report, figures = places
    with ExitStack() as outputs:
        if output is not None:
            draft = outputs.enter_context(whole_file(output))
            draft.write_text(printable(text) + "\n", encoding="utf-8")
        if report is not None:
            draft = outputs.enter_context(whole_file(report))
            write_report(found, draft, command=typed_command(), table=table, summary=summary)
        if figures is not None:
            from eqrm.evaluation.presenting.plots import write_figures

            write_figures(found.models, figures, summary.alpha)


def _data(files: Sequence[str], others: Sequence[str], columns: Sequence[str]) -> Any:
    """The files of one table, or a mapping of models to their files.

    A name that was given to the only column is that of the model of the first file.
    """
    if not others:
        return list(files)
    first = columns[0].partition("=")[0] if len(columns) == 1 and "=" in columns[0] else ""
    data: dict[str, Any] = {first or _stem(files[0]): list(files)}
    for text in others:
        name, path = _named_file(text)
        if name in data:
            raise SettingError(
                f"Two models are called {name!r}. Give each its own name: NAME=FILE."
            )
        data[name] = path
    return data


def _named_file(text: str) -> tuple[str, str]:
    """``NAME=FILE``, or a file that names itself."""
    name, separator, path = text.partition("=")
    if separator and name and not Path(text).exists():
        return name, path
    return _stem(text), text


def _stem(path: str) -> str:
    return Path(path).name.split(".")[0] or path


def _formatted(
    found: Evaluation, table: RiskTable, summary: Summary, format: str, intervals: bool | None
) -> str:
    import json

    intervals = format != "latex" if intervals is None else intervals
    if format == "json":
        content = {**found.to_dict(), "risk_table": table.to_dict(), "summary": summary.to_dict()}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    if format == "csv":
        return table.to_csv()
    if format == "latex":
        return table.to_latex(intervals)
    if format == "markdown":
        return table.to_markdown(intervals)
    return f"{found.to_text(table, intervals)}\n\n{summary.to_text()}"
