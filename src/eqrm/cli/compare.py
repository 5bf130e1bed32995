"""``eqrm compare``: one leaderboard of models, runs and predictions."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eqrm.checks import CONFIDENCE, check_all, one_of
from eqrm.cli.commands import column, option, parsed_level, say, separated
from eqrm.cli.options import DATA, PREDICTION, SEVERAL, DomainColumns, Target, confidence_of

HOW = "Output"
FORMATS = ("text", "markdown", "csv", "json")


def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PATH...",
            help="Folders of 'eqrm train', evaluation.json files, model files, run folders of "
            "'eqrm train-network' on a table, and CSV or Parquet files of predictions. A name "
            "that is given again is another training of the same model.",
        ),
    ],
    table: Annotated[
        str | None,
        option(
            "CSV or Parquet file with rows to evaluate model files and run folders on, target and "
            "domain included. Domains that a model was trained on are left out.",
            DATA,
            metavar="FILE",
        ),
    ] = None,
    alpha: Annotated[str, option("Level that models are ranked at.", HOW)] = "0.9",
    domain: DomainColumns = None,
    common_domains: Annotated[
        bool,
        option(
            "Compare on the domains that all models were measured on (default: it is an error if "
            "they differ).",
            DATA,
            "--common-domains",
        ),
    ] = False,
    target: Target = None,
    prediction: Annotated[str | None, column(PREDICTION, DATA)] = None,
    confidence: Annotated[float, confidence_of("intervals", HOW)] = 0.95,
    metric: Annotated[
        str | None,
        option("Loss of files of predictions, as in 'eqrm evaluate' (default: log-loss).", DATA),
    ] = None,
    as_format: Annotated[str, option("text, markdown, csv or json.", HOW, "--format")] = "text",
    quantiles: Annotated[
        list[str] | None, option(f"Levels of the columns (default: 0.5, 0.9, 0.99). {SEVERAL}", HOW)
    ] = None,
    output: Annotated[
        Path | None, option("File to write (default: print).", HOW, metavar="FILE")
    ] = None,
) -> None:
    """Rank models by a quantile of their risk over the same domains.

    Any number of models, trainings and levels, from whatever was saved. Each model is
    compared with the first, domain by domain; differences that the domains cannot
    tell from 0 are named. --domain, --target and --prediction are for files of
    predictions; those that 'eqrm predict' wrote need no --prediction.
    """
    from eqrm.evaluation.presenting.leaderboard import LEVELS, Leaderboard
    from eqrm.files.writing import refuse_unwritable, write_text
    from eqrm.tabular.comparing.sources import ComparedSource, models_of_sources

    asked = separated(quantiles or [])
    check_all(
        lambda: one_of(as_format, FORMATS, "format"),
        lambda: CONFIDENCE.check(confidence, "confidence"),
        lambda: parsed_level(alpha),
        *(partial(parsed_level, level, "--quantiles") for level in asked),
        lambda: None if output is None else refuse_unwritable(output),
    )
    columns = {"domains": domain, "target": target, "predictions": prediction, "metric": metric}
    models, loss = models_of_sources(
        [ComparedSource.of(text) for text in sources], table, **columns
    )
    board = Leaderboard.of(
        models,
        loss,
        alpha=parsed_level(alpha),
        quantiles=[parsed_level(level, "--quantiles") for level in asked] or LEVELS,
        confidence=confidence,
        common_domains=common_domains,
    )
    if as_format == "json":
        content = json.dumps(board.to_dict(), ensure_ascii=False, indent=1)
    else:
        ways = {"text": board.to_text, "markdown": board.to_markdown, "csv": board.to_csv}
        content = ways[as_format]()
    if output is None:
        say(content)
    else:
        write_text(output, content + "\n")
        say(f"Wrote {output}.")
