"""The picture of causal recovery. Draws, computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import INK, QUIET, new_figure, shades
from eqrm.reproductions.causal_recovery.expected import ANTI_CAUSAL, CAUSAL
from eqrm.reproductions.causal_recovery.limits import Solved

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_ways(solved: Sequence[Solved]) -> Figure:
    """EQRM's coefficients as α → 1, in the plane of cause and effect."""
    figure = new_figure(width=7.0, height=4.2)
    axes = figure.subplots()
    axes.plot([1, 0], [0, 1], color=QUIET, linestyle=":", linewidth=1)
    for (first, second), name in ((CAUSAL, "causal"), (ANTI_CAUSAL, "anti-causal")):
        axes.plot([first], [second], "*", color=INK, markersize=14)
        axes.annotate(name, (first, second), xytext=(8, 6), textcoords="offset points")
    for index, (each, colour) in enumerate(zip(solved, shades(len(solved)), strict=True)):
        cause, effect = each.path.coefficients.T
        style = "o-" if index % 2 else "o--"  # some ways lie on each other
        size = 7 - 0.5 * index
        axes.plot(cause, effect, style, color=colour, markersize=size, label=each.case.name)
    axes.set_xlabel("β1, the cause's coefficient")
    axes.set_ylabel("β2, the effect's coefficient")
    axes.set_xlim(-0.1, 1.25)
    axes.set_ylim(-0.1, 1.15)
    figure.legend(frameon=False, loc="outside right upper", title="changing")
    return figure
