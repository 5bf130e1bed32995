"""What must hold of ``surrogate="auto"`` over the tables of the study."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqrm.reproductions.frontiers.findings import TableFindings
from eqrm.reproductions.frontiers.settings import (
    LARGEST_COST,
    LARGEST_EXCESS,
    LARGEST_MEAN_EXCESS,
    MAIN_GOAL,
)
from eqrm.reproductions.outcome import Check
from eqrm.reproductions.split_interval import SplitInterval
from eqrm.text import counted

SOURCE = 'the requirements of `surrogate="auto"`'


def check_frontiers(findings: Sequence[TableFindings]) -> list[Check]:
    """Every check, at the main goal; other goals are reported by ``auto_by_goal``."""
    excesses = {each.name: each.excess(MAIN_GOAL) for each in findings}
    sources = [each.source for each in findings]
    average = SplitInterval.average([excess.auto for excess in excesses.values()], sources)
    plain = SplitInterval.average([excess.plain for excess in excesses.values()], sources)
    worst = max(excesses, key=lambda name: excesses[name].auto.mean)
    shown = f"auto's excess over the best fixed choice at {MAIN_GOAL:g}, share of ERM's quantile"
    found = [
        Check(
            f"{shown}: mean over pairs of table and model",
            average.mean <= LARGEST_MEAN_EXCESS,
            f"{average} over {counted(len(excesses), 'pair')}",
            f"at most {100.0 * LARGEST_MEAN_EXCESS:g}%",
            SOURCE,
        ),
        Check(
            f"{shown}: largest of any pair",
            excesses[worst].auto.mean <= LARGEST_EXCESS,
            f"{excesses[worst].auto} ({worst})",
            f"at most {100.0 * LARGEST_EXCESS:g}%",
            SOURCE,
        ),
        Check(
            "auto is below EQRM at the goal's own level, on average over pairs",
            average.mean < plain.mean,
            f"excess {average} against {plain}",
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
