"""``eqrm evaluate``: how predictors of any origin do over domains."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqrm.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    from eqrm.evaluation.evaluation import Evaluation
    from eqrm.evaluation.presenting.risk_table import RiskTable
    from eqrm.evaluation.presenting.summary import Summary

FORMATS = ("text", "markdown", "latex", "csv", "json")
SWITCH = ("--intervals/--no-intervals",)
DATA, WHAT, HOW = "Data", "What was measured", "Output"


def _option(text: str, panel: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel)


def evaluate(
    files: Annotated[
        list[str], typer.Argument(help="CSV or Parquet files, patterns such as 'parts/*.parquet'.")
    ],
    domain: Annotated[
        list[str], _option("The column of the domain; repeat it to join several.", DATA)
    ],
    loss: Annotated[
        list[str] | None, _option("A column of losses, or NAME=COLUMN; repeatable.", WHAT)
    ] = None,
    label: Annotated[str | None, _option("The column of the labels.", WHAT)] = None,
    prediction: Annotated[
        list[str] | None,
        _option("A column of predictions, NAME=COLUMN, or 'p_{class}'; repeatable.", WHAT),
    ] = None,
    metric: Annotated[
        str, _option("log-loss, brier, 0-1, squared, absolute or pinball:LEVEL.", WHAT)
    ] = "log-loss",
    clip: Annotated[
        float, _option("Keep the probabilities of the log-loss so far from 0 and 1.", WHAT)
    ] = 0.0,
    aggregated: Annotated[
        bool, _option("The table has a row per domain: n, mean, variance.", WHAT, "--aggregated")
    ] = False,
    count: Annotated[str, _option("With --aggregated: the column of n.", WHAT)] = "n",
    mean: Annotated[str, _option("With --aggregated: the mean loss.", WHAT)] = "mean",
    variance: Annotated[
        str, _option("With --aggregated: the variance of the losses.", WHAT)
    ] = "variance",
    predictor: Annotated[
        str | None, _option("With --aggregated: the column that tells predictors apart.", WHAT)
    ] = None,
    compare: Annotated[
        list[str] | None,
        _option("The file of another predictor, or NAME=FILE; repeatable.", DATA),
    ] = None,
    common_domains: Annotated[
        bool, _option("Leave out domains that a predictor lacks.", DATA, "--common-domains")
    ] = False,
    levels: Annotated[
        str, _option("Levels of the quantiles.", HOW)
    ] = "0,0.25,0.5,0.75,0.9,0.95,0.99,1",
    superquantiles: Annotated[str, _option("Levels of the superquantiles.", HOW)] = "0.9,0.95,0.99",
    alpha: Annotated[str, _option("The level of the certificate.", HOW)] = "0.9",
    confidence: Annotated[float, _option("Of intervals and certificates.", HOW)] = 0.95,
    worst: Annotated[int, _option("How many of the worst domains to list.", HOW)] = 5,
    intervals: Annotated[
        bool | None,
        _option("Confidence intervals in the table; by default all but LaTeX.", HOW, *SWITCH),
    ] = None,
    format: Annotated[str, _option("text, markdown, latex, csv or json.", HOW)] = "text",
    output: Annotated[Path | None, _option("Write the table there.", HOW)] = None,
    report: Annotated[Path | None, _option("Write an HTML report there.", HOW)] = None,
    figures: Annotated[Path | None, _option("Write SVG and PDF figures there.", HOW)] = None,
    threads: Annotated[int | None, _option("Threads for reading files.", DATA)] = None,
    memory: Annotated[str, _option("Memory for reading files, such as 2GB.", DATA)] = "600MB",
) -> None:
    """Say how predictors do over domains, and what that tells of domains not seen."""
    from eqrm.checks import OPEN_FRACTION
    from eqrm.evaluation.evaluate import evaluate as run
    from eqrm.evaluation.inference.risk_checks import checked_alpha
    from eqrm.evaluation.presenting.report import write_report
    from eqrm.evaluation.presenting.summary import summarised
    from eqrm.files.writing import refuse_unwritable, whole_file
    from eqrm.level import Level

    if format not in FORMATS:
        raise SettingError(f"There is no format {format!r}. {did_you_mean(format, FORMATS)}")
    for path in (output, report):
        if path is not None:
            refuse_unwritable(path)
    _refuse_overwriting(output, report, [*files, *(_named_file(o)[1] for o in compare or [])])
    certified = Level.parse(alpha)
    checked_alpha(certified)  # before hours of reading
    OPEN_FRACTION.check(confidence, "--confidence")
    wanted, beyond = ([Level.parse(t) for t in _listed(text)] for text in (levels, superquantiles))
    found = run(
        _data(files, compare or [], _first_name(compare, [*(loss or []), *(prediction or [])])),
        domains=domain,
        losses=loss or None,
        labels=label,
        predictions=prediction or None,
        metric=metric,
        clip=clip,
        aggregated=aggregated,
        columns={"count": count, "mean": mean, "variance": variance} if aggregated else None,
        predictor=predictor,
        common_domains=common_domains,
        threads=threads,
        memory=memory,
        progress=sys.stderr.isatty(),
    )
    table = found.risk_table(wanted, beyond, confidence=confidence, worst=worst)
    shown = format != "latex" if intervals is None else intervals
    summary = summarised(found, certified, confidence)
    text = _written(found, table, summary, format, shown)
    with ExitStack() as outputs:
        if output is not None:
            draft = outputs.enter_context(whole_file(output))
            draft.write_text(text + "\n", encoding="utf-8")
        if report is not None:
            draft = outputs.enter_context(whole_file(report))
            write_report(found, draft, command=_command(), table=table, summary=summary)
        if figures is not None:
            from eqrm.evaluation.presenting.plots import write_figures

            write_figures(found, figures, certified)
    if output is None:
        typer.echo(text)


def _refuse_overwriting(output: Path | None, report: Path | None, inputs: Sequence[str]) -> None:
    """Raise if an output would take the place of another one, or of the data."""
    from eqrm.data.tables.files import find_files

    written = [path.resolve() for path in (output, report) if path is not None]
    if len(set(written)) < len(written):
        raise SettingError(f"--output and --report are both {report}. Name two files.")
    if not written:
        return
    for path in {file.resolve() for file in find_files(inputs)} & set(written):
        raise SettingError(f"{path} holds the data. Name another file for what is written.")


def _first_name(compare: Sequence[str] | None, columns: Sequence[str]) -> str | None:
    """What the predictor of the first file is called where its column was given a name.

    >>> _first_name(["EQRM=b.csv"], ["ERM=p"]), _first_name(["EQRM=b.csv"], ["p"])
    ('ERM', None)
    """
    name, separator, _ = (
        columns[0].partition("=") if compare and len(columns) == 1 else ("", "", "")
    )
    return name if separator and name else None


def _data(files: Sequence[str], others: Sequence[str], first: str | None = None) -> Any:
    """The files of one table, or a mapping of predictors to their files."""
    if not others:
        return list(files)
    data: dict[str, Any] = {first or _stem(files[0]): list(files)}
    for text in others:
        name, path = _named_file(text)
        if name in data:
            raise SettingError(f"There are two predictors {name!r}. Name them apart: NAME=FILE.")
        data[name] = path
    return data


def _named_file(text: str) -> tuple[str, str]:
    """``NAME=FILE``, or a file that names itself.

    >>> _named_file("EQRM=models/b.parquet"), _named_file("models/b.csv.gz")
    (('EQRM', 'models/b.parquet'), ('b', 'models/b.csv.gz'))
    """
    name, separator, path = text.partition("=")
    if separator and name and not Path(text).exists():
        return name, path
    return _stem(text), text


def _stem(path: str) -> str:
    return Path(path).name.split(".")[0] or path


def _listed(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def _written(
    found: Evaluation, table: RiskTable, summary: Summary, format: str, intervals: bool
) -> str:
    import json

    if format == "json":
        content = {
            **found.to_dict(),
            "risk_table": table.to_dict(),
            "summary": summary.to_dict(),
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    if format == "csv":
        return table.to_csv()
    if format == "latex":
        return table.to_latex(intervals)
    if format == "markdown":
        return table.to_markdown(intervals)
    return f"{found.sentence}\n\n{table.to_text(intervals)}\n\n{summary.to_text()}"


def _command() -> str:
    """The command as it can be typed again."""
    import shlex

    return shlex.join(["eqrm", *sys.argv[1:]])
