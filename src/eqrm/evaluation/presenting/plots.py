"""Figures of risk distributions. This module draws and writes; ``risk_curves`` computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from eqrm.checks import one_of
from eqrm.errors import MissingExtraError
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.presenting.risk_curves import RiskCurve, smooth_curves, step_curves
from eqrm.files.writing import whole_file
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "png", "svg")
INK, QUIET, ACCENT = "#1b1b1b", "#9a9a9a", "#c2410c"


def draw_risk_distribution(curve: RiskCurve) -> Figure:
    """The paper's Figure 1c: PDF above, CDF below, the α-quantile marked in both."""
    figure = new_figure(width=5.2, height=4.6)
    density, distribution = figure.subplots(2, 1, sharex=True)
    if curve.pdf is not None:
        density.plot(curve.grid, curve.pdf, color=INK)
        _shade_beyond_quantile(density, curve)
    _mark_risks(density, curve)
    density.set_ylabel("density")
    distribution.plot(curve.grid, curve.cdf, color=INK)
    distribution.set_ylabel("probability of a smaller risk")
    distribution.set_xlabel("risk of a domain")
    _mark_quantile(distribution, curve)
    return figure


def draw_risk_cdf(smooth: RiskCurve, steps: RiskCurve) -> Figure:
    """The paper's Figure 2: the smoothed CDF reaches beyond the largest risk seen."""
    figure = new_figure(width=4.2, height=3.2)
    axes = figure.subplots()
    axes.step(steps.grid, steps.cdf, where="post", color=QUIET, label=steps.label)
    axes.plot(smooth.grid, smooth.cdf, color=INK, label=smooth.label)
    _mark_risks(axes, smooth)
    _mark_quantile(axes, smooth)
    axes.set_xlabel("risk of a domain")
    axes.set_ylabel("probability of a smaller risk")
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    return figure


def draw_cdfs_and_tails(curves: Sequence[RiskCurve]) -> Figure:
    """The CDFs of several predictors, and beside them the upper tails, the first one dashed.

    At a height α, the leftmost curve belongs to the predictor that is best for α.
    """
    figure = new_figure(width=8.4, height=3.4)
    whole, tail = figure.subplots(1, 2)
    draw_cdfs(whole, curves)
    for curve, (colour, dashes) in zip(curves, _styles(len(curves)), strict=True):
        tail.plot(curve.grid, curve.sf, color=colour, linestyle=dashes)
    tail.set_yscale("log")
    tail.set_ylim(8e-4, 1)
    tail.yaxis.set_major_formatter(lambda share, _: f"{share:g}")
    tail.set_ylabel("share of unseen domains above")
    tail.set_xlabel("risk of a domain")
    return figure


def draw_cdfs(axes: Axes, curves: Sequence[RiskCurve]) -> None:
    """The CDFs of several predictors on the given axes, the first one dashed."""
    for curve, (colour, dashes) in zip(curves, _styles(len(curves)), strict=True):
        axes.plot(
            curve.grid, curve.cdf, color=colour, linestyle=dashes, label=plain_label(curve.label)
        )
    axes.set_ylabel("share of unseen domains below")
    axes.set_xlabel("risk of a domain")
    axes.legend(frameon=False, loc="lower right", fontsize="small")


def draw_differences(axes: Axes, differences: Mapping[str, Sequence[Difference]]) -> None:
    """Differences with their intervals, a row per statistic and a colour per predictor.

    An interval without an end reaches to the edge of the picture; a difference without any
    interval is left out.
    """
    labels = [each.label for each in next(iter(differences.values()), ())]
    step = 0.8 / max(1, len(differences))
    reach = 0.0
    for number, (name, found) in enumerate(differences.items()):
        shown = [(row, each) for row, each in enumerate(found) if not each.refused]
        if not shown:
            continue
        finite = [abs(x) for _, d in shown for x in (d.value, d.low, d.high) if math.isfinite(x)]
        reach = max(reach, 1.1 * max(finite))
        far = 10.0 * reach
        axes.errorbar(
            [each.value for _, each in shown],
            [row + step * (number - (len(differences) - 1) / 2) for row, _ in shown],
            xerr=[
                [min(each.value - each.low, far) for _, each in shown],
                [min(each.high - each.value, far) for _, each in shown],
            ],
            fmt="o",
            capsize=2,
            color=shades(len(differences))[number],
            label=plain_label(name),
        )
    if reach:
        axes.set_xlim(-reach, reach)
        axes.legend(frameon=False, fontsize="small")
    axes.axvline(0.0, color=QUIET, linewidth=1)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel("difference in risk (negative: lower)")


def given_or_new_axes(axes: Axes | None) -> Axes:
    """The axes, or new ones in a figure of pyplot, which a notebook shows."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots", "Drawing a figure") from error
    return pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")[1]


def _styles(number: int) -> list[tuple[str, str]]:
    return [(INK, "--"), *((shade, "-") for shade in shades(number - 1))]


def write_figures(
    predictors: Mapping[str, MeasuredRisks], folder: Path, level: Level | None = None
) -> list[Path]:
    """The CDFs of all predictors, and PDF with CDF of each (the paper's Figures 4 and 1c).

    Files are numbered in the order of the predictors, because names are not to be trusted in
    paths. Returns what was written.
    """
    figures = {"risk-cdfs": draw_cdfs_and_tails(step_curves(predictors))}
    smooth = smooth_curves(predictors, level or Level(0.9))
    for number, curve in enumerate(smooth, start=1):
        figures[f"risk-distribution-{number}"] = draw_risk_distribution(curve)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with ExitStack() as outputs:
        for stem, figure in figures.items():
            for kind in ("svg", "pdf"):
                written.append(folder / f"{stem}.{kind}")
                save_figure(figure, outputs.enter_context(whole_file(written[-1])))
    return written


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, PDF or PNG, by its file extension; the output is deterministic."""
    import matplotlib

    kind = figure_format(path)
    _tidy(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with matplotlib.rc_context({"svg.hashsalt": "eqrm", "svg.fonttype": "none"}):
        figure.savefig(path, format=kind, dpi=160, metadata=stamps[kind])


def figure_format(path: Path) -> str:
    """The format that a file name asks for.

    >>> figure_format(Path("risks.SVG"))
    'svg'
    """
    return one_of(path.suffix.lower().lstrip("."), FORMATS, f"figure format in {path.name!r}:")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots", "Drawing a figure") from error
    return Figure(figsize=(width, height), layout="constrained")


def _tidy(figure: Figure) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)


def shades(number: int) -> list[str]:
    """From yellow to dark purple, safe for colour-blind readers and in greyscale."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    scale = colormaps["plasma_r"]
    if number == 1:  # yellow alone is too pale for paper
        return [to_hex(scale(0.55))]
    return [to_hex(scale(0.12 + 0.88 * index / (number - 1))) for index in range(number)]


def plain_label(name: str) -> str:
    """A name as matplotlib shows it unchanged: no formulas, and no underscore that hides it.

    >>> plain_label("$x$"), plain_label("_a") == "\N{NO-BREAK SPACE}_a"
    ('\\\\$x\\\\$', True)
    """
    shown = shortened(name, 40).replace("$", r"\$")
    return f"\N{NO-BREAK SPACE}{shown}" if shown.startswith("_") else shown


def _mark_risks(axes: Axes, curve: RiskCurve) -> None:
    axes.plot(curve.risks, [0.0] * len(curve.risks), "|", color=INK, markersize=10, clip_on=False)


def _shade_beyond_quantile(axes: Axes, curve: RiskCurve) -> None:
    if curve.quantile is None or curve.level is None or curve.pdf is None:
        return
    beyond = curve.grid >= curve.quantile
    axes.fill_between(curve.grid, curve.pdf, where=~beyond, color=QUIET, alpha=0.25, linewidth=0)
    axes.fill_between(curve.grid, curve.pdf, where=beyond, color=ACCENT, alpha=0.35, linewidth=0)
    axes.axvline(curve.quantile, color=ACCENT, linestyle="--", linewidth=1)
    axes.set_ylim(bottom=0)


def _mark_quantile(axes: Axes, curve: RiskCurve) -> None:
    if curve.quantile is None or curve.level is None:
        return
    left = float(curve.grid[0])
    alpha = curve.level.alpha
    axes.hlines(alpha, left, curve.quantile, color=ACCENT, linestyle="--", linewidth=1)
    axes.vlines(curve.quantile, 0, alpha, color=ACCENT, linestyle="--", linewidth=1)
    axes.annotate(
        f"α = {curve.level}: risk {curve.quantile:.3g}",
        (left, alpha),
        xytext=(0, 4),
        textcoords="offset points",
        verticalalignment="bottom",
        color=ACCENT,
    )
    axes.set_ylim(0, 1.12)
