"""The figures of the linear-regression experiment. Draws, computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import INK, QUIET, new_figure, shades
from eqrm.reproductions.linear_regression.experiment import LARGEST_RISK_DRAWN, Findings
from eqrm.reproductions.linear_regression.settings import LEVELS, TEST_QUANTILES, level_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_figure(findings: Findings) -> Figure:
    """A to D side by side, as in the paper's Figure 3."""
    figure = new_figure(width=13.0, height=3.4)
    axes = figure.subplots(1, 4)
    draw_test_risks(axes[0], findings)
    draw_densities(axes[1], findings)
    draw_coefficients(axes[2], findings)
    draw_quantiles(axes[3], findings)
    for letter, each in zip("ABCD", axes, strict=True):
        each.set_title(letter, loc="left", fontweight="bold")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    return figure


def draw_test_risks(axes: Axes, findings: Findings) -> None:
    """A: risk against the quantile of the test domain."""
    places = range(len(TEST_QUANTILES))
    for curve, risks, colour in zip(
        findings.curves, findings.test_risks[:-1], shades(len(LEVELS)), strict=True
    ):
        axes.plot(places, risks, "o-", color=colour, markersize=3, label=curve.label)
    axes.plot(places, findings.test_risks[-1], "--", color=INK, label="oracle")
    axes.set_xticks(list(places), [f"{q:g}" for q in TEST_QUANTILES])
    axes.set_ylim(0, 3.5)
    axes.set_xlabel("quantile of the test domain")
    axes.set_ylabel("risk")


def draw_densities(axes: Axes, findings: Findings) -> None:
    """B: densities of the risk over training domains."""
    for curve, colour in zip(findings.curves, shades(len(LEVELS)), strict=True):
        if curve.pdf is not None:
            axes.plot(curve.grid, curve.pdf, color=colour)
    axes.set_yscale("log")
    axes.set_ylim(0.02, 200)
    axes.set_xlim(0, LARGEST_RISK_DRAWN)
    axes.set_xlabel("risk")
    axes.set_ylabel("density")


def draw_coefficients(axes: Axes, findings: Findings) -> None:
    """C: coefficients against the level."""
    places = range(len(LEVELS))
    cause, effect = findings.frontier.coefficients.T
    axes.axhline(1, color=QUIET, linestyle=":", linewidth=1)
    axes.axhline(0, color=QUIET, linestyle=":", linewidth=1)
    axes.plot(places, cause, "o-", color=INK, label=r"$\beta_{\rm cause}$")
    axes.plot(places, effect, "s--", color=INK, label=r"$\beta_{\rm effect}$")
    axes.set_xticks(list(places), [level_name(level) for level in LEVELS])
    axes.set_xlabel("α")
    axes.set_ylabel("coefficient")
    axes.legend(frameon=False)


def draw_quantiles(axes: Axes, findings: Findings) -> None:
    """D: quantiles estimated from few domains against those of all."""
    curves = findings.quantiles
    ends = [float(curves.of_all[0]), float(curves.of_all[-1])]
    axes.plot(ends, ends, color=QUIET, linewidth=1)
    for size, values, colour in zip(
        curves.sizes, curves.estimated, shades(len(curves.sizes)), strict=True
    ):
        axes.plot(curves.of_all, values, "o-", color=colour, markersize=3, label=f"m = {size}")
    axes.set_xlabel("risk quantile, all domains")
    axes.set_ylabel("risk quantile, m domains")
    axes.legend(frameon=False, fontsize="small")


def draw_cdfs(findings: Findings) -> Figure:
    """The CDF figure of appendix G.1.1."""
    figure = new_figure(width=4.6, height=3.4)
    axes = figure.subplots()
    for curve, colour in zip(findings.curves, shades(len(LEVELS)), strict=True):
        axes.plot(curve.grid, curve.cdf, color=colour, label=curve.label)
    axes.set_xlim(0, LARGEST_RISK_DRAWN)
    axes.set_ylim(0, 1)
    axes.set_xlabel("risk")
    axes.set_ylabel("probability of a smaller risk")
    axes.legend(frameon=False, fontsize="small", loc="lower right")
    return figure
