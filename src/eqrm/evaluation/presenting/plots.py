"""Figures of risk distributions, drawn and written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eqrm.checks import one_of
from eqrm.distributions.kernel import KDE
from eqrm.errors import naming_extra
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.files.writing import whole_file
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "png", "svg")
INK, QUIET, ACCENT = "#1b1b1b", "#9a9a9a", "#c2410c"
POINTS = 400


def draw_risk_distribution(kde: KDE, level: Level) -> Figure:
    """The paper's Figure 1c: PDF above, CDF below, the α-quantile marked in both."""
    figure = new_figure(width=5.2, height=4.6)
    density, distribution = figure.subplots(2, 1, sharex=True)
    grid, quantile = _grid(kde), float(kde.quantile(level))
    pdf = np.exp(kde.log_prob(grid))
    density.plot(grid, pdf, color=INK)
    for side, colour, alpha in ((grid < quantile, QUIET, 0.25), (grid >= quantile, ACCENT, 0.35)):
        density.fill_between(grid, pdf, where=side, color=colour, alpha=alpha, linewidth=0)
    density.axvline(quantile, color=ACCENT, linestyle="--", linewidth=1)
    density.set_ylim(bottom=0)
    _mark_risks(density, kde)
    density.set_ylabel("density")
    _draw_smooth_cdf(distribution, kde, level)
    return figure


def draw_risk_cdf(kde: KDE, level: Level) -> Figure:
    """The paper's Figure 2: the smoothed CDF reaches beyond the largest risk seen."""
    figure = new_figure(width=4.2, height=3.2)
    axes = figure.subplots()
    grid = _grid(kde)
    steps = step_cdf(kde.risks, float(grid[0]), float(grid[-1]))
    axes.plot(*steps, drawstyle="steps-post", color=QUIET, label="empirical")
    _mark_risks(axes, kde)
    _draw_smooth_cdf(axes, kde, level)
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    return figure


def draw_cdfs_and_tails(models: Mapping[str, MeasuredRisks]) -> Figure:
    """The CDFs of several models, and beside them the upper tails, the first one dashed.

    At a height α, the leftmost curve belongs to the model that is best for α.
    """
    figure = new_figure(width=8.4, height=3.4)
    whole, tail = figure.subplots(1, 2)
    draw_cdfs(whole, models)
    for line in whole.get_lines():
        risks, shares = line.get_data()
        (drawn,) = tail.plot(risks, 1.0 - shares, drawstyle="steps-post", color=line.get_color())
        drawn.set_linestyle(line.get_linestyle())
    tail.set_yscale("log")
    tail.set_ylim(8e-4, 1)
    tail.yaxis.set_major_formatter(lambda share, _: f"{share:g}")
    tail.set_ylabel("share of unseen domains above")
    tail.set_xlabel("risk of a domain")
    return figure


def draw_cdfs(axes: Axes, models: Mapping[str, MeasuredRisks]) -> None:
    """The share of domains below each risk, a curve per model, the first one dashed."""
    low = min(float(found.risks.min()) for found in models.values())
    high = max(float(found.risks.max()) for found in models.values())
    styles = [(INK, "--"), *((shade, "-") for shade in shades(len(models) - 1))]
    for (name, found), (colour, dashes) in zip(models.items(), styles, strict=True):
        risks, shares = step_cdf(found.risks, low, high)
        label = plain_label(name)
        axes.plot(risks, shares, dashes, drawstyle="steps-post", color=colour, label=label)
    axes.set_ylabel("share of unseen domains below")
    axes.set_xlabel("risk of a domain")
    axes.legend(frameon=False, loc="lower right", fontsize="small")


def step_cdf(risks: Vector, low: float, high: float) -> tuple[Vector, Vector]:
    """Where the CDF of risks steps between two ends, and its heights from there on."""
    shares = np.arange(risks.size + 1) / risks.size
    return np.concatenate([[low], np.sort(risks), [high]]), np.append(shares, 1.0)


def draw_differences(axes: Axes, differences: Mapping[str, Sequence[Difference]]) -> None:
    """Differences with their intervals, a row per statistic and a colour per model.

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
    with naming_extra("matplotlib", "plots", "Drawing a figure"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")[1]


def write_figures(models: Mapping[str, MeasuredRisks], folder: Path, level: Level) -> None:
    """The CDFs of all models, and PDF with CDF of each (the paper's Figures 4 and 1c).

    Files are numbered in the order of the models, because names are not to be trusted in
    paths.
    """
    figures = {"risk-cdfs": draw_cdfs_and_tails(models)}
    for number, found in enumerate(models.values(), start=1):
        drawn = draw_risk_distribution(KDE(found.risks), level)
        figures[f"risk-distribution-{number}"] = drawn
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as outputs:
        for stem, figure in figures.items():
            for kind in ("svg", "pdf"):
                path = folder / f"{stem}.{kind}"
                save_figure(figure, outputs.enter_context(whole_file(path)))


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, PDF or PNG, by its file extension; the output is deterministic."""
    import matplotlib

    kind = figure_format(path)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with matplotlib.rc_context({"svg.hashsalt": "eqrm", "svg.fonttype": "none"}):
        figure.savefig(path, format=kind, dpi=160, metadata=stamps[kind])


def figure_format(path: Path) -> str:
    """The format that a file name asks for."""
    return one_of(path.suffix.lower().lstrip("."), FORMATS, f"figure format in {path.name!r}:")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches."""
    with naming_extra("matplotlib", "plots", "Drawing a figure"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")


def shades(number: int) -> list[str]:
    """From yellow to dark purple, safe for colour-blind readers and in greyscale."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    scale = colormaps["plasma_r"]
    if number == 1:  # yellow alone is too pale for paper
        return [to_hex(scale(0.55))]
    return [to_hex(scale(0.12 + 0.88 * index / (number - 1))) for index in range(number)]


def plain_label(name: str) -> str:
    """A name as matplotlib shows it unchanged: no formulas, and no underscore that hides it."""
    shown = shortened(name, 40).replace("$", r"\$")
    return f"\N{NO-BREAK SPACE}{shown}" if shown.startswith("_") else shown


def _grid(kde: KDE) -> Vector:
    """Risks from the .0005 to the .9995-quantile, evenly spaced."""
    low, high = (float(kde.quantile(Level(alpha))) for alpha in (0.0005, 0.9995))
    return np.linspace(low, high, POINTS)


def _mark_risks(axes: Axes, kde: KDE) -> None:
    axes.plot(kde.risks, [0.0] * len(kde.risks), "|", color=INK, markersize=10, clip_on=False)


def _draw_smooth_cdf(axes: Axes, kde: KDE, level: Level) -> None:
    """The CDF, with the α-quantile marked."""
    grid, quantile = _grid(kde), float(kde.quantile(level))
    axes.plot(grid, kde.cdf(grid), color=INK, label="KDE-smoothed")
    left = float(grid[0])
    axes.hlines(level.alpha, left, quantile, color=ACCENT, linestyle="--", linewidth=1)
    axes.vlines(quantile, 0, level.alpha, color=ACCENT, linestyle="--", linewidth=1)
    axes.annotate(
        f"α = {level}: risk {quantile:.3g}",
        (left, level.alpha),
        xytext=(0, 4),
        textcoords="offset points",
        verticalalignment="bottom",
        color=ACCENT,
    )
    axes.set_ylim(0, 1.12)
    axes.set_xlabel("risk of a domain")
    axes.set_ylabel("probability of a smaller risk")
