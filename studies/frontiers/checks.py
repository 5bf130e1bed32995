"""What must hold of ``surrogate="auto"`` over the tables of the study."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqrm.text import counted
from studies.frontiers.findings import TableFindings, all_splits
from studies.frontiers.settings import (
    LARGEST_COST,
    LARGEST_EXCESS,
    LARGEST_MEAN_EXCESS,
)
from studies.outcome import Check
from studies.split_interval import SplitInterval

SOURCE = 'the requirements of `surrogate="auto"`'


def check_frontiers(
    findings: Sequence[TableFindings], repeated: Sequence[TableFindings] = ()
) -> list[Check]:
    """Every check, at the goal where it holds least."""
    sources = [each.source for each in findings]
    means, plains, largest = {}, {}, {}
    for goal in findings[0].settings.goals:
        measured = all_splits(findings, repeated, goal)
        excesses = {each.name: each.excess(goal) for each in measured}
        means[goal], plains[goal] = (
            SplitInterval.average([getattr(e, kind) for e in excesses.values()], sources)
            for kind in ("auto", "plain")
        )
        worst = max(excesses, key=lambda name: excesses[name].auto.mean)
        largest[goal] = excesses[worst].auto, worst
    shown = "auto's excess over the best fixed choice, share of ERM's quantile, at any goal"
    mean = max(means, key=lambda goal: means[goal].mean)
    most = max(largest, key=lambda goal: largest[goal][0].mean)
    near = max(means, key=lambda goal: means[goal].mean - plains[goal].mean)
    found = [
        Check(
            f"{shown}: mean over pairs of table and model",
            means[mean].mean <= LARGEST_MEAN_EXCESS,
            f"{means[mean]} over {counted(len(findings), 'pair')} (goal {mean:g})",
            f"at most {100.0 * LARGEST_MEAN_EXCESS:g}%",
            SOURCE,
        ),
        Check(
            f"{shown}: largest of any pair",
            largest[most][0].mean <= LARGEST_EXCESS,
            f"{largest[most][0]} ({largest[most][1]}, goal {most:g})",
            f"at most {100.0 * LARGEST_EXCESS:g}%",
            SOURCE,
        ),
        Check(
            "auto is below EQRM at the goal's own level, on average over pairs, at every goal",
            means[near].mean < plains[near].mean,
            f"excess {means[near]} against {plains[near]} (goal {near:g})",
            "a lower excess",
            SOURCE,
        ),
    ]
    costs = {each.name: each.cost for each in findings if each.cost is not None}
    if costs:
        dearest = max(costs, key=lambda name: costs[name])
        found.append(
            Check(
                "auto's cost in fits of its path, processor time",
                costs[dearest] <= LARGEST_COST,
                f"{np.mean(list(costs.values())):.1f} on average, {costs[dearest]:.1f} at most "
                f"({dearest})",
                f"at most {LARGEST_COST:g}",
                SOURCE,
            )
        )
    return found
