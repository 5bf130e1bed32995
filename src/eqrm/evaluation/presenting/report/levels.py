"""What the report says at each stop of its slider: quantiles and certificates per level."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.binomial_ranks import domains_needed, highest_level
from eqrm.evaluation.inference.cdf_bands import CdfBand, cdf_band
from eqrm.evaluation.inference.certificates import (
    MEASURED,
    TRUE,
    Certificate,
    quantile_bound,
    rounded_up,
)
from eqrm.evaluation.inference.noise import denoised_risks
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.inference.true_risk import true_risk_bound
from eqrm.evaluation.presenting.report.shapes import digits_of, short, shorts, smooth_law
from eqrm.evaluation.presenting.risk_table import RiskTable
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
    domains = len(evaluation.domains)
    within_reach = highest_level(domains, confidence)
    return {
        "alphas": stops,
        "labels": [f"{alpha:g}" for alpha in stops],
        "start": stops.index(round(start, 12)),
        "needed": [
            domains_needed(alpha, confidence) if alpha > within_reach else None for alpha in stops
        ],
        "withinReach": short(np.floor(1000 * within_reach) / 1000),
        "speaksOf": {"measured": MEASURED, "true": TRUE},
        "predictors": [
            _of_predictor(risks, stops, confidence, evaluation.bounds)
            for risks in evaluation.predictors.values()
        ],
    }


def _of_predictor(
    risks: MeasuredRisks,
    stops: list[float],
    confidence: float,
    bounds: tuple[float, float] | None,
) -> dict[str, Any]:
    law, band = smooth_law(risks.risks), cdf_band(risks.risks, confidence)
    denoised, digits = _denoised(risks), digits_of(risks.risks, 7)
    measured = [_measured_bound(risks, alpha, confidence) for alpha in stops]
    return {
        "quantile": _quantiles(risks.risks, stops),
        "smooth": [
            short(float(risks.risks[0] if law is None else law.quantile(Level(alpha))), digits)
            for alpha in stops
        ],
        "denoised": None if denoised is None else _quantiles(denoised, stops),
        "bound": [_stated(found) for found in measured],
        "rank": [None if found is None else found.rank for found in measured],
        "atOnce": [_upper_limit(band, alpha) for alpha in stops],
        "true": _true_bounds(risks, stops, confidence, bounds),
    }


def _quantiles(risks: Vector, stops: list[float]) -> list[float]:
    found = np.quantile(risks, stops, method="inverted_cdf")
    return shorts(found, digits_of(risks, 7))


def _measured_bound(risks: MeasuredRisks, alpha: float, confidence: float) -> Certificate | None:
    try:
        return quantile_bound(risks.risks, alpha, confidence)
    except TooFewDomainsError:
        return None


def _true_bounds(
    risks: MeasuredRisks,
    stops: list[float],
    confidence: float,
    bounds: tuple[float, float] | None,
) -> list[list[Any] | None] | None:
    """Certificates for the true risk, where losses are bounded."""
    if bounds is None or not np.isfinite(bounds).all():
        return None
    variances = None if np.isnan(risks.variances).any() else risks.variances
    found: list[list[Any] | None] = []
    for alpha in stops:
        try:
            certificate = true_risk_bound(
                risks.risks,
                risks.counts,
                alpha,
                confidence,
                loss_range=bounds,
                loss_variances=variances,
            )
        except TooFewDomainsError:
            found.append(None)
        else:
            found.append(_stated(certificate))
    return found


def _stated(certificate: Certificate | None) -> list[Any] | None:
    """The bound as drawn, and as it is said."""
    if certificate is None:
        return None
    return [short(certificate.bound, 12), rounded_up(certificate.bound), certificate.vacuous]


def _upper_limit(band: CdfBand, alpha: float) -> str | None:
    limit = band.quantile_limits(alpha)[1]
    return rounded_up(limit) if np.isfinite(limit) else None


def _denoised(risks: MeasuredRisks) -> Vector | None:
    if not (risks.counts > 1).any():
        return None
    return denoised_risks(risks.risks, risks.counts, risks.variances)
