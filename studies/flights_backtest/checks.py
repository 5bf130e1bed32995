"""What the backtest of the flights must show: right counts, and the sentences of its page."""

from __future__ import annotations

import numpy as np

from eqrm.evaluation import Backtest
from studies.flights_backtest.experiment import YearFindings, YearSettings
from studies.outcome import Check

SOURCE = "this page"
ERM = "ERM"


def check_year(findings: YearFindings, settings: YearSettings) -> list[Check]:
    """All checks of a size; those about the year itself need all flights."""
    found = [_check_counts(findings.stream, "refitted"), _check_counts(findings.fixed, "fixed")]
    found.append(_check_certified(findings.stream))
    return [*found, *_check_winter(findings.stream)] if settings.thinned == 1 else found


def _check_counts(found: Backtest, what: str) -> Check:
    """Counted again from the risks, by an order statistic of scipy's binomial law."""
    from scipy.stats import binom

    wrong, rows = 0, [row for row in found.shares if row.kind == "plain"]
    for row in rows:
        each = next(w for w in found.windows(row.certify) if w.window.number == row.window)
        past, later = np.sort(each.past[row.model]), each.later[row.model]
        below = binom.cdf(np.arange(len(past)), len(past), row.level)  # P(at most k of them)
        bound = past[int(np.argmax(below >= found.plan.confidence - 1e-12))]
        wrong += row.within != int((later <= bound * (1.0 + 1e-12)).sum())
    return Check(
        f"counts of domains within the bound, {what}",
        wrong == 0 and len(rows) > 0,
        f"{len(rows) - wrong} of {len(rows)} equal",
        "all equal to a second computation",
        "order statistics by scipy's binomial law",
    )


def _check_certified(found: Backtest) -> Check:
    refused = sum(row.refused for row in found.pooled)
    return Check(
        "every window is certified for every predictor and level",
        refused == 0,
        f"{refused} refused",
        "none",
        SOURCE,
    )


def _check_winter(found: Backtest) -> list[Check]:
    """What is said about the last window, which ends on 26 December."""
    checks = []
    for certify in (60, 90):
        last = max(row.window for row in found.shares if row.certify == certify)
        (row,) = (
            r
            for r in found.shares
            if (r.certify, r.window, r.model, r.level) == (certify, last, ERM, 0.9)
        )
        checks.append(
            Check(
                f"ERM in the last window, certified on {certify} days of autumn",
                row.share < 0.9,
                f"{100 * row.share:.1f}% of {row.judged} days ({row.first} to {row.last})",
                "below 90%",
                SOURCE,
            )
        )
    return checks
