"""``eqrm evaluate --metric macro-f1``: a metric that is not a mean of losses."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from eqrm.checks import one_of
from eqrm.cli.commands import parsed_level, say, separated
from eqrm.errors import SettingError

if TYPE_CHECKING:
    from eqrm.evaluation.metric_evaluation import MetricEvaluation

USED = (
    *("files", "domain", "seen", "threads", "memory", "label", "prediction", "metric"),
    *("levels", "superquantiles", "confidence", "worst", "intervals", "format", "output"),
)


def is_of_sets(metric: str) -> bool:
    """Whether a metric is not a mean of losses; a name that is neither is refused."""
    from eqrm.evaluation.measuring.metrics import METRICS
    from eqrm.evaluation.measuring.set_metrics import SET_METRICS

    return one_of(metric.partition(":")[0], (*METRICS, *SET_METRICS), "metric") in SET_METRICS


def refuse_unused(context: typer.Context) -> None:
    """Raise if options are given that such a metric has no use for, all of them at once."""
    unused = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in USED
        and (source := context.get_parameter_source(str(parameter.name))) is not None
        and source.name == "COMMANDLINE"
    ]
    if unused:
        raise SettingError(
            f"--metric {context.params['metric']} is not a mean of losses. Leave out "
            f"{', '.join(unused)}, or choose a metric that is a loss, such as log-loss."
        )


def evaluate_by_metric(context: typer.Context) -> None:
    """Measure, and print or write what was found."""
    from eqrm.evaluation.metric_evaluation import evaluate_metric

    refuse_unused(context)
    given = context.params
    asked = {
        name: [parsed_level(level, f"--{name}") for level in separated(given[name])]
        for name in ("levels", "superquantiles")
        if given[name]
    }
    found = evaluate_metric(
        list(given["files"]),
        metric=given["metric"],
        domains=given["domain"] or None,
        labels=given["label"],
        predictions=given["prediction"] or None,
        seen=given["seen"],
        threads=given["threads"],
        memory=given["memory"],
        progress=sys.stderr.isatty(),
    )
    asked |= {"confidence": given["confidence"], "worst": given["worst"]}
    text = _formatted(found, given, asked)
    if given["output"] is None:
        say(text)
        return
    from eqrm.files.writing import write_text

    write_text(given["output"], text + "\n")


def _formatted(found: MetricEvaluation, given: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    kind, intervals = given["format"], given["intervals"]
    intervals = kind != "latex" if intervals is None else intervals
    if kind == "csv":
        return found.to_csv()
    table = found.evaluation.risk_table(**asked) if found.varies else None
    if kind == "text":
        return found.to_text(table, intervals)
    if kind == "json":
        means = found.means(asked["confidence"]) if found.varies else {}
        content = {
            **found.to_dict(),
            "means": {
                name: {"value": cell.value, "low": cell.low, "high": cell.high}
                for name, cell in means.items()
            },
            "risk_table": None if table is None else table.to_dict(),
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    table = found.evaluation.risk_table(**asked) if table is None else table
    return table.to_latex(intervals) if kind == "latex" else table.to_markdown(intervals)
