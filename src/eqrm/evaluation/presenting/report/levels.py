"""What the report says at each stop of its slider: quantiles and certificates per level."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.binomial_ranks import domains_needed, highest_level
from eqrm.evaluation.inference.cdf_bands import CdfBand
from eqrm.evaluation.inference.certificates import MEASURED, TRUE, assumption_about, new_domains
from eqrm.evaluation.inference.nested.bounds import assumption_about_groups, new_members
from eqrm.evaluation.inference.noise import denoised_risks
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.presenting.report.answer import ShownModel
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.table_cells import quantiles_at
from eqrm.evaluation.rounding import digits_of_spread, rounded_up, significant
from eqrm.level import Level
from eqrm.risks import MeasuredRisks

LOWEST, HIGHEST = 0.001, 0.99999


def stops_of(table: RiskTable, start: float = 0.9) -> list[float]:
    """The levels that the slider stops at: an even scale, finer at the end, the table's own,
    and where it starts.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> stops = stops_of(found.risk_table(levels=[0.123]))
    >>> stops[0], stops[-1], 0.123 in stops, 0.9 in stops
    (0.05, 0.999, True, True)
    """
    even = [i / 100 for i in range(5, 100)] + [0.985, *(i / 1000 for i in range(991, 1000))]
    own = [round(s.level.alpha, 12) for s in table.statistics if s.level is not None]
    return sorted(
        {*even, *(alpha for alpha in own if LOWEST <= alpha <= HIGHEST), round(start, 12)}
    )


def level_label(level: Level) -> str:
    """What the page calls a level; the slider and the table call it the same.

    >>> level_label(Level(0.9)), level_label(Level(log_tail=-100.0))
    ('0.9', '1-e^-100')
    """
    return f"{level.alpha:g}" if level.alpha <= HIGHEST or level.tail == 0.0 else str(level)


def starting_level(level: Level) -> float:
    """Where the slider starts: at the level, or at the end of its scale."""
    return min(max(level.alpha, LOWEST), HIGHEST)


def about_levels(
    evaluation: Evaluation, rows: list[ShownModel], table: RiskTable, start: float, picked: bool
) -> dict[str, Any]:
    """For every stop: quantiles, certificates, or how many domains those would need.

    ``picked`` says that the chosen model was picked among all on these domains: its certificate is
    then computed for all of them at once, too.
    """
    stops, groups, confidence = stops_of(table, start), evaluation.groups, table.confidence
    units = len(evaluation.domains if groups is None else set(groups))
    reach = highest_level(units, confidence)
    models = [row for row in rows if row.name in evaluation.predictors]
    chosen = next(row for row in rows if row.chosen)
    compared = sum(not row.reference for row in rows)
    return {
        "alphas": stops,
        "labels": [f"{alpha:g}" for alpha in stops],
        "start": stops.index(round(start, 12)),
        "needed": [domains_needed(a, confidence) if a > reach else None for a in stops],
        "withinReach": significant(np.floor(1000 * reach) / 1000),
        **_words(evaluation, units),
        "quantiles": [_quantiles(row.risks.risks, stops, table.interpolation) for row in rows],
        "bounds": [_stated(evaluation, stops, confidence, row.name) for row in models],
        "compared": compared if picked and compared > 1 else None,
        "chosen": _of_chosen(evaluation, chosen, stops, confidence, compared if picked else 1),
    }


def _words(evaluation: Evaluation, units: int) -> dict[str, Any]:
    """What is independent, the new domains that statements are about, and what is assumed."""
    nesting, kinds = evaluation.nesting, (MEASURED, TRUE)
    if nesting is None:
        about = {kind: new_domains(kind) for kind in kinds}
        return {"units": [units, "domains"], "about": about, "assumption": assumption_about(units)}
    about = {kind: new_members(kind, nesting.labels) for kind in kinds}
    return {
        "units": [units, "groups"],
        "about": about,
        "assumption": assumption_about_groups(units),
    }


def _of_chosen(
    evaluation: Evaluation, row: ShownModel, stops: list[float], confidence: float, compared: int
) -> dict[str, Any]:
    """More about the one model that the page certifies."""
    band, denoised = evaluation.cdf_band(confidence, predictor=row.name), _denoised(row.risks)
    together = 1.0 - (1.0 - confidence) / compared
    return {
        "denoised": None if denoised is None else _quantiles(denoised, stops),
        "atOnce": [_upper_limit(band, alpha) for alpha in stops],
        "picked": _stated(evaluation, stops, together, row.name) if compared > 1 else None,
        "true": None
        if evaluation.bounds is None
        else _stated(evaluation, stops, confidence, row.name, true_risk=True),
    }


def _quantiles(risks: Vector, stops: list[float], interpolation: str = "step") -> Any:
    return significant(quantiles_at(risks, stops, interpolation), digits_of_spread(risks, 6))


def _stated(
    evaluation: Evaluation,
    stops: list[float],
    confidence: float,
    name: str,
    true_risk: bool = False,
) -> list[list[Any] | None]:
    """The bound of each certificate as text, and whether it is vacuous; None: too few domains."""
    found: list[list[Any] | None] = []
    for alpha in stops:
        try:
            made = evaluation.certificate(alpha, confidence, true_risk=true_risk, predictor=name)
            found.append([rounded_up(made.bound), int(made.vacuous)])
        except TooFewDomainsError:
            found.append(None)
    return found


def _upper_limit(band: CdfBand, alpha: float) -> str | None:
    limit = band.quantile_limits(alpha)[1]
    return rounded_up(limit) if np.isfinite(limit) else None


def _denoised(risks: MeasuredRisks) -> Vector | None:
    if not (risks.counts > 1).any():
        return None
    return denoised_risks(risks.risks, risks.counts, risks.variances)
