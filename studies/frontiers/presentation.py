"""The frontier study table by table, and its figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eqrm.evaluation.presenting.plots import new_figure
from studies.frontiers.findings import TableFindings, WithinBudget
from studies.frontiers.settings import (
    AUTO,
    BUDGETS,
    EQRM,
    ERM,
    MAIN_GOAL,
    METHODS,
    PUBLISHED,
    Candidate,
)
from studies.outcome import Cell, ResultTable
from studies.split_interval import SplitInterval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 3
"""Panels side by side."""
GRADIENT_COLUMNS = (
    "level",
    "domains per step",
    "exact, to ERM",
    "published, to ERM",
    "exact, to published",
)


def methods_table(findings: Sequence[TableFindings]) -> ResultTable:
    """Each method at the setting that cross-fitting on the training domains prefers."""
    rows: list[list[Cell]] = []
    for each in findings:
        for method in each.methods:
            quantile, mean = each.change(method, ERM, MAIN_GOAL)
            against, _ = each.change(method, EQRM, MAIN_GOAL)
            to_erm = "" if method == ERM else quantile.word
            to_eqrm = "" if method == EQRM else f"{against} {against.word}"
            rows.append([each.name, method, str(quantile), to_erm, str(mean), to_eqrm])
    columns = ["table", "method", f"q({MAIN_GOAL:g})", "to ERM", "mean risk", f"q, to {EQRM}"]
    title = (
        f"Change of the {MAIN_GOAL:g}-quantile and of the mean risk on unseen domains, as a share "
        "of ERM's; setting of each method by cross-fitting on training domains"
    )
    return ResultTable("methods", title, columns, rows, folded=True)


def budgets_table(findings: Sequence[TableFindings]) -> ResultTable:
    """The same within budgets of mean risk."""
    rows: list[list[Cell]] = []
    for each in findings:
        for method in (name for name in each.methods if name != ERM):
            cells = [_within(each.within(method, MAIN_GOAL, budget)) for budget in BUDGETS]
            rows.append([each.name, method, *cells])
    columns = ["table", "method", *(f"ERM + {100.0 * budget:g}%" for budget in BUDGETS)]
    title = (
        f"Change of the {MAIN_GOAL:g}-quantile (of the mean risk) on unseen domains within budgets "
        "of mean risk, kept on training domains by cross-fitting"
    )
    return ResultTable("budgets", title, columns, rows, folded=True)


def _within(found: WithinBudget | None) -> str:
    if found is None or not found.mostly_reached:
        return "not reached"
    text = f"{found.quantile} ({100.0 * found.mean.mean:+.1f}%)"
    return text if found.reached == found.splits else f"{text}, {found.reached} of {found.splits}"


def auto_table(findings: Sequence[TableFindings]) -> ResultTable:
    """What auto loses against the best fixed choice in hindsight, for every goal."""
    rows: list[list[Cell]] = []
    goals, sources = findings[0].settings.goals, [each.source for each in findings]
    for goal in goals:
        excesses = [each.excess(goal) for each in findings]
        for each, excess in zip(findings, excesses, strict=True):
            chosen = Counter(part.chosen[goal] for part in each.parts).most_common(1)[0]
            rows.append(
                [
                    f"{goal:g}",
                    each.name,
                    str(excess.best),
                    f"{100.0 * excess.gain:+.1f}%",
                    str(excess.auto),
                    str(excess.plain),
                    str(excess.overall),
                    f"{chosen[0]} ({chosen[1]} of {len(each.parts)})",
                    "" if each.cost is None else f"{each.cost:.1f}",
                ]
            )
        rows.append(
            [
                f"{goal:g}",
                "mean over tables",
                "",
                f"{100.0 * np.mean([e.gain for e in excesses]):+.1f}%",
                *(
                    str(SplitInterval.average([getattr(e, kind) for e in excesses], sources))
                    for kind in ("auto", "plain", "overall")
                ),
                "",
                "",
            ]
        )
    columns = [
        "goal",
        "table",
        "best fixed choice",
        "its gain on ERM",
        "auto's excess",
        "plain EQRM's excess",
        "auto's excess over the best of all methods",
        "chosen most often",
        "cost in path fits",
    ]
    title = 'surrogate="auto": excess of the quantile over the best fixed choice in hindsight'
    return ResultTable("auto", title, columns, rows, folded=True)


def gradient_table(findings: Sequence[TableFindings]) -> ResultTable:
    """The exact against the published gradient, by domains per step."""
    rows: list[list[Cell]] = []
    for each in (found for found in findings if found.parts[0].steps):
        for level in each.settings.step_levels:
            for size in each.settings.step_sizes:
                exact, published, both = each.gradient_worth(level, size)
                shown = "all" if size is None else str(size)
                rows.append([each.name, f"{level:g}", shown, str(exact), str(published), str(both)])
                rows[-1].append(both.word)
    columns = ["table", *GRADIENT_COLUMNS, "exact is"]
    title = (
        "What the exact gradient is worth: change of the quantile at its own level on unseen "
        "domains, as a share of ERM's, after the same number of steps of Adam"
    )
    return ResultTable("gradient", title, columns, rows, folded=True)


def frontiers_table(findings: Sequence[TableFindings]) -> ResultTable:
    """Every candidate: mean risk and quantiles on unseen domains, mean over splits."""
    rows: list[list[Cell]] = []
    goals = findings[0].settings.goals
    for each in findings:
        quantiles = [each.quantiles(goal).mean(axis=0) for goal in goals]
        for place, candidate in enumerate(each.candidates):
            setting = "" if candidate.setting is None else f"{candidate.setting:g}"
            mean = float(each.means[:, place].mean())
            rows.append(
                [each.name, candidate.method, setting, mean, *(float(q[place]) for q in quantiles)]
            )
    columns = ["table", "method", "setting", "mean risk", *(f"q({goal:g})" for goal in goals)]
    return ResultTable("frontiers", "Every candidate", columns, rows, on_page=False)


def draw_frontiers(findings: Sequence[TableFindings]) -> Figure:
    """A panel per table: mean risk against quantile, relative to ERM's, a line per method."""
    down = -(-len(findings) // ACROSS)
    figure = new_figure(width=10.0, height=2.9 * down + 0.8)
    panels = figure.subplots(down, min(ACROSS, len(findings)), squeeze=False).ravel()
    colours = {method: f"C{place % 10}" for place, method in enumerate(METHODS)}
    for panel, each in zip(panels, findings, strict=False):
        quantiles, means = each.quantiles(MAIN_GOAL).mean(axis=0), each.means.mean(axis=0)
        erm = each.place(Candidate(ERM))
        for method in each.methods:
            places = each.settings_of(method)
            panel.plot(
                100.0 * (means[places] / means[erm] - 1.0),
                100.0 * (quantiles[places] / quantiles[erm] - 1.0),
                marker="*" if method == AUTO else "o" if METHODS.index(method) < 10 else "s",
                markersize=7 if method == AUTO else 3,
                linestyle="none" if method == AUTO else "--" if method == PUBLISHED else "-",
                linewidth=1.0,
                color="black" if method == AUTO else colours[method],
                label=method,
            )
        panel.set_title(each.name, fontsize=9)
        panel.set_xlim(-2.0, 25.0)
        near = np.clip(100.0 * (quantiles / quantiles[erm] - 1.0), None, 20.0)
        panel.set_ylim(float(near.min()) - 2.0, float(near.max()) + 2.0)
    for panel in panels[len(findings) :]:
        panel.set_visible(False)
    lines = {
        label: handle
        for panel in panels
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.supxlabel("mean risk, change against ERM in per cent")
    figure.supylabel(f"{MAIN_GOAL:g}-quantile, change in per cent")
    figure.legend(
        lines.values(), lines.keys(), frameon=False, loc="outside upper center", ncols=5, fontsize=8
    )
    return figure
