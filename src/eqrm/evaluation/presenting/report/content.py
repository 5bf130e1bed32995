"""What the scripts of the report draw and move, as plain data: everything is computed here."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.inference.noise import NoiseSplit
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.presenting.report import levels, shapes
from eqrm.evaluation.presenting.report.answer import Answer, ShownModel
from eqrm.evaluation.presenting.report.packing import (
    FEWEST_BYTES,
    MOST_BYTES,
    bytes_of,
    listed_domains,
    middle_cut,
)
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary
from eqrm.evaluation.rounding import decimals, digits_of_spread, significant

MOST_POINTS = 2000


def unit_of_risk(loss: str) -> str:
    """What axes call the loss: the mean of the 0-1 loss is the error rate.

    >>> unit_of_risk("0-1"), unit_of_risk("squared")
    ('error rate', 'squared error')
    """
    return "error rate" if loss == "0-1" else loss_in_words(loss)


def report_content(
    evaluation: Evaluation,
    table: RiskTable,
    summary: Summary,
    answer: Answer,
    rows: list[ShownModel],
) -> dict[str, Any]:
    """Everything that scripts need, ready for JSON."""
    models = [row for row in rows if row.name in evaluation.predictors]
    steps = min(shapes.MOST_STEPS, 3 * shapes.MOST_STEPS // len(rows))
    start = levels.starting_level(summary.alpha)
    unit = unit_of_risk(evaluation.loss)
    all_risks = [row.risks.risks for row in rows]
    content: dict[str, Any] = {
        "predictors": [middle_cut(row.name) for row in rows],
        "signs": [row.sign for row in rows],
        "trained": [row.trained_for and levels.level_label(row.trained_for) for row in rows],
        "references": [int(row.reference) for row in rows],
        "chosen": next(i for i, row in enumerate(rows) if row.chosen),
        "role": answer.role,
        "baseline": next(i for i, row in enumerate(rows) if row.name == summary.baseline),
        "unit": unit,
        "risk": unit if evaluation.loss == "0-1" else f"mean {unit}",
        "confidence": table.confidence,
        "smooth": table.interpolation == SMOOTH,
        "domains": len(evaluation.domains),
        "view": shapes.view_of(all_risks),
        "means": [_mean(row) for row in rows],
        "decimals": [_decimals(table, row.name) for row in rows],
        "shapes": [shapes.curve_shape(risks, steps) for risks in all_risks],
        "band": None
        if evaluation.nesting is not None
        else shapes.band_shape(
            evaluation.cdf_band(table.confidence, predictor=answer.chosen), steps
        ),
        "levels": levels.about_levels(evaluation, rows, table, start, answer.picked),
        "verdicts": dict(answer.at_levels),
        "noise": [_noise(summary.noise[row.name]) for row in models],
        "sampled": sampled_points(models),
    }
    left = max(MOST_BYTES - bytes_of(content), FEWEST_BYTES)
    return {**content, "rows": listed_domains(evaluation, models, left)}


def _mean(row: ShownModel) -> Any:
    return significant(row.risks.risks.mean(), digits_of_spread(row.risks.risks, 6))


def _decimals(table: RiskTable, name: str) -> int:
    """Decimals that the quantiles of a model deserve: as many as its mean has in the table."""
    cell = table.all_cells[name][0]
    return decimals(cell.value, cell.error)


def _noise(split: NoiseSplit | None) -> list[float] | None:
    """The centre of the funnel, and the standard deviation of losses within domains."""
    if split is None:
        return None
    return [significant(split.mean, 9), significant(split.loss_variance**0.5)]


def sampled_points(rows: list[ShownModel]) -> dict[str, Any] | None:
    """An even sample of examples and risks for the funnel; None where all domains are listed."""
    domains = len(rows[0].risks)
    if domains <= 5 * MOST_POINTS:
        return None
    chosen = np.linspace(0, domains - 1, MOST_POINTS).astype(np.int64)
    return {
        "counts": [row.risks.counts[chosen].tolist() for row in rows],
        "risks": [
            significant(row.risks.risks[chosen], digits_of_spread(row.risks.risks)) for row in rows
        ],
    }
