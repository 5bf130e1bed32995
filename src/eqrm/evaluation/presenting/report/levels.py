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
from eqrm.evaluation.presenting.report.shapes import smooth_law
from eqrm.evaluation.presenting.risk_table import RiskTable
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


def about_levels(
    evaluation: Evaluation, stops: list[float], start: float, confidence: float
) -> dict[str, Any]:
    """For every stop: its quantiles, its certificates, or how many domains those would need."""
    groups = evaluation.groups
    units = len(evaluation.domains if groups is None else set(groups))
    reach = highest_level(units, confidence)
    return {
        "alphas": stops,
        "labels": [f"{alpha:g}" for alpha in stops],
        "start": stops.index(round(start, 12)),
        "needed": [domains_needed(a, confidence) if a > reach else None for a in stops],
        "withinReach": significant(np.floor(1000 * reach) / 1000),
        **_words(evaluation, units),
        "predictors": [
            _of_predictor(evaluation, name, stops, confidence) for name in evaluation.predictors
        ],
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


def _of_predictor(
    evaluation: Evaluation, name: str, stops: list[float], confidence: float
) -> dict[str, Any]:
    risks = evaluation[name]
    law, band = smooth_law(risks.risks), evaluation.cdf_band(confidence, predictor=name)
    denoised, digits = _denoised(risks), digits_of_spread(risks.risks, 7)
    smooth = [risks.risks[0] if law is None else law.quantile(Level(alpha)) for alpha in stops]

    def stated(true_risk: bool) -> list[list[Any] | None]:
        return [_stated(evaluation, alpha, confidence, true_risk, name) for alpha in stops]

    return {
        "quantile": _quantiles(risks.risks, stops),
        "smooth": significant([float(quantile) for quantile in smooth], digits),
        "denoised": None if denoised is None else _quantiles(denoised, stops),
        "bound": stated(true_risk=False),
        "atOnce": [_upper_limit(band, alpha) for alpha in stops],
        "true": None if evaluation.bounds is None else stated(true_risk=True),
    }


def _quantiles(risks: Vector, stops: list[float]) -> Any:
    found = np.quantile(risks, stops, method="inverted_cdf")
    return significant(found, digits_of_spread(risks, 7))


def _stated(
    evaluation: Evaluation, alpha: float, confidence: float, true_risk: bool, name: str
) -> list[Any] | None:
    """The bound of a certificate as drawn and as text, and whether it is vacuous."""
    try:
        found = evaluation.certificate(alpha, confidence, true_risk=true_risk, predictor=name)
    except TooFewDomainsError:
        return None
    return [significant(found.bound, 12), rounded_up(found.bound), found.vacuous]


def _upper_limit(band: CdfBand, alpha: float) -> str | None:
    limit = band.quantile_limits(alpha)[1]
    return rounded_up(limit) if np.isfinite(limit) else None


def _denoised(risks: MeasuredRisks) -> Vector | None:
    if not (risks.counts > 1).any():
        return None
    return denoised_risks(risks.risks, risks.counts, risks.variances)
