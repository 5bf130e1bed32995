"""The figure of the linear-SEM tasks. Draws, computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import new_figure, shades
from eqrm.reproductions.linear_sem.experiment import Findings
from eqrm.reproductions.linear_sem.settings import METHODS, TASKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_errors(findings: Findings) -> Figure:
    """Bars by task and method, causal errors above non-causal ones, on a log scale."""
    figure = new_figure(width=9.0, height=4.6)
    axes = figure.subplots(2, 1, sharex=True)
    width = 0.8 / len(METHODS)
    for row, name in enumerate(("causal", "non-causal")):
        for m, (method, colour) in enumerate(zip(METHODS, shades(len(METHODS)), strict=True)):
            axes[row].bar(
                [t + (m - 1.5) * width for t in range(len(TASKS))],
                [findings.mean(task, method)[row] for task in TASKS],
                width,
                yerr=[findings.standard_error(task, method)[row] for task in TASKS],
                color=colour,
                label=method,
                error_kw={"linewidth": 0.8},
            )
        axes[row].set_yscale("log")
        axes[row].set_ylabel(f"{name} error")
    axes[1].set_xticks(range(len(TASKS)), [task.name for task in TASKS])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside upper center", ncols=len(METHODS))
    return figure
