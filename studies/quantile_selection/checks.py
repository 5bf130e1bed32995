"""What must hold for the study to mean anything, and of selection by a quantile."""

from __future__ import annotations

import numpy as np

from studies.outcome import Check
from studies.quantile_selection.findings import (
    HINDSIGHT,
    MEAN,
    MEASURES,
    RANDOM,
    SelectionFindings,
    groups_and_rules,
)
from studies.quantile_selection.settings import ERM, LINEAR, OBJECTIVES
from studies.split_interval import SplitInterval

LEAST_CONVERGED = 0.9
"""The share of runs that must have converged."""
SOURCE = "the design, before any result"


def check_selection(findings: SelectionFindings) -> list[Check]:
    """Every check; comparisons are of means over splits."""
    return [
        _finished(findings),
        _converged(findings),
        _above_hindsight(findings),
        *_comparisons(findings),
    ]


def _finished(findings: SelectionFindings) -> Check:
    finished = sum(len(split.all_runs) for split in findings.splits)
    planned = sum(split.planned for split in findings.splits)
    return Check(
        "every run is finished",
        finished == planned,
        f"{finished} of {planned}",
        f"{planned} of {planned}",
        SOURCE,
    )


def _converged(findings: SelectionFindings) -> Check:
    drifts, largest = findings.drifts, findings.settings.largest_drift
    share = float(np.mean(drifts <= largest))
    return Check(
        "runs have converged: the mean validation risk hardly changes before the last step",
        share >= LEAST_CONVERGED,
        f"{100 * share:.0f}% of runs change by at most {100 * largest:g}% from the last checkpoint "
        f"but one to the last; median {100 * float(np.median(drifts)):.2f}%",
        f"at least {100 * LEAST_CONVERGED:g}%",
        SOURCE,
    )


def _above_hindsight(findings: SelectionFindings) -> Check:
    least = min(
        float(np.min(findings.unseen(group, rule) - findings.unseen(group, HINDSIGHT)))
        for group, rule in groups_and_rules()
    )
    return Check(
        "no selection is below the best candidate in hindsight, in any split",
        least >= 0.0,
        f"least difference {least:.2g}",
        "at least 0",
        SOURCE,
    )


def _comparisons(findings: SelectionFindings) -> list[Check]:
    own = [(group, rule) for group, rule in groups_and_rules() if group in OBJECTIVES]
    random = {(g, r): findings.change((g, r), (g, RANDOM), r) for g, r in own}
    by_mean = {(g, r): findings.from_mean(g, r, r) for g, r in own if r != MEAN}
    linear = {(ERM, MEAN): findings.change((ERM, MEAN), (LINEAR, MEASURES[0]), MEAN)}
    return [
        _no_worse(findings, "the MLP is no worse than linear ERM, in the mean", linear),
        _no_worse(findings, "each rule is no worse than a random draw, in its own measure", random),
        _no_worse(
            findings,
            "selection by a quantile is no worse than by the mean, at its own level",
            by_mean,
        ),
    ]


def _no_worse(
    findings: SelectionFindings, claim: str, changes: dict[tuple[str, str], SplitInterval]
) -> Check:
    worst = max(changes, key=lambda pair: changes[pair].mean)
    tolerance = findings.settings.tolerance
    group, rule = worst
    return Check(
        claim,
        changes[worst].mean <= tolerance,
        f"{changes[worst]} ({group}, selected by the {rule}; the worst of {len(changes)})",
        f"at most {100 * tolerance:+g}% on average",
        SOURCE,
    )
