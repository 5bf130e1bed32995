"""The picture of a backtest: shares within the bound by window, and by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqrm.evaluation.backtesting.results import JudgedWindows
from eqrm.evaluation.presenting.plots import INK, QUIET, new_figure, plain_label, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_backtest(found: JudgedWindows) -> Figure:
    """A row of two panels per length of ``certify``; constants are dotted. Draws, computes nothing.

    On the left the share of judged domains within the first bound at the headline level, window by
    window; on the right shares over all windows against the level.
    """
    sizes = found.plan.certify
    figure = new_figure(width=8.6, height=0.5 + 2.9 * len(sizes))
    kind, level = found.plan.kinds[0], found.plan.headline
    names = found.predictors
    trained = [name for name in names if name not in found.references]
    colours = dict(zip(trained, [INK, *shades(max(len(trained) - 1, 1))], strict=False))
    rows = figure.subplots(len(sizes), 2, squeeze=False, sharey=True)
    for (by_window, by_level), certify in zip(rows, sizes, strict=True):
        for number, name in enumerate(names):
            own = [
                row
                for row in found.shares
                if (row.certify, row.predictor, row.kind) == (certify, name, kind)
            ]
            here = [row for row in own if row.level == level]
            pooled = [found.find(certify, name, kind, each) for each in found.plan.levels]
            style = {
                "color": colours.get(name, QUIET),
                "linestyle": "-" if name in colours else ":",
                "marker": "ox^sDv"[number % 6],
                "markersize": 4,
            }
            label = plain_label(name)
            by_window.plot([r.window for r in here], [r.share for r in here], label=label, **style)
            by_level.plot(found.plan.levels, [p.share if p else None for p in pooled], **style)
        by_window.axhline(level, color=QUIET, linewidth=0.8)
        by_level.plot(found.plan.levels, found.plan.levels, color=QUIET, linewidth=0.8)
        by_window.set_xlabel(f"window (certified on {certify} domains)")
        by_window.set_ylabel("share within the bound")
        by_window.xaxis.get_major_locator().set_params(integer=True)
        by_level.set_xlabel("level")
        by_level.set_ylim(top=1.03)
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside upper center", ncols=3)
    return figure
