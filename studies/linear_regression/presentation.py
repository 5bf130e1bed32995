"""The tables and figures of the linear-regression experiment; drawing computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import INK, QUIET, new_figure, shades
from studies.linear_regression.experiment import LARGEST_RISK_DRAWN, RegressionFindings
from studies.linear_regression.settings import (
    LEVELS,
    TEST_QUANTILES,
    exact_coefficients,
    named_level,
    printed_level,
)
from studies.outcome import Cell, ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = [named_level(level) for level in LEVELS]


def regression_tables(findings: RegressionFindings) -> list[ResultTable]:
    """Test risks, predictors, the finer path, exceptions, errors of the Q-Q curves."""
    return [
        *_test_risk_tables(findings),
        _predictors_table(findings),
        _path_table(findings),
        _exceptions_table(findings),
        _quantile_error_table(findings),
    ]


def _test_risk_tables(findings: RegressionFindings) -> list[ResultTable]:
    """A: risks on sampled test domains, and without sampling noise."""
    columns = ["predictor", *map(str, TEST_QUANTILES)]
    title = "A: risk on test domains at quantiles of σ2"
    exact = "A, without sampling noise in the test domains"
    return [
        ResultTable("test_risks", title, columns, _named(findings.test_risks.tolist())),
        ResultTable("exact_test_risks", exact, columns, _named(findings.exact_test_risks.tolist())),
    ]


def _predictors_table(findings: RegressionFindings) -> ResultTable:
    """B and C."""
    frontier = findings.frontier
    limit = [float(exact_coefficients(level, findings.variances)[1]) for level in LEVELS]
    return ResultTable(
        "predictors",
        "B and C: predictors and their risks over training domains",
        ["predictor", "β cause", "β effect", "for n → ∞", "mean risk", "spread of risk"],
        [
            [NAMES[i], *frontier.coefficients[i].tolist(), limit[i], float(mean), float(spread)]
            for i, (mean, spread) in enumerate(
                zip(frontier.mean_risks, findings.spread, strict=True)
            )
        ],
    )


def _path_table(findings: RegressionFindings) -> ResultTable:
    """The finer grid of levels."""
    path = findings.path
    return ResultTable(
        "path",
        f"The way to the causal predictor: {len(path.levels)} levels",
        ["level", "β cause", "β effect", "mean risk", "own quantile of risk"],
        [
            [str(level), *path.coefficients[i].tolist(), float(mean), float(path.values[i])]
            for i, (level, mean) in enumerate(zip(path.levels, path.mean_risks, strict=True))
        ],
    )


def _exceptions_table(findings: RegressionFindings) -> ResultTable:
    """A in other draws of the domains."""
    return ResultTable(
        "exceptions",
        "A in other draws of the domains (closed form): exceptions by test quantile",
        ["estimator", "draws with one", *map(str, TEST_QUANTILES)],
        [
            [each.estimator, float(each.draws), *map(float, each.by_quantile)]
            for each in findings.exceptions
        ],
    )


def _quantile_error_table(findings: RegressionFindings) -> ResultTable:
    """D."""
    curves = findings.quantiles
    columns = (curves.error, curves.standard_error, curves.exact_error)
    return ResultTable(
        "quantile_error",
        "D: distance of risk quantiles estimated from m domains",
        ["m", "to those of all domains", "standard error", "to those of the law"],
        [
            [str(size), *row]
            for size, *row in zip(curves.sizes, *(c.tolist() for c in columns), strict=True)
        ],
    )


def _named(rows: list[list[float]]) -> list[list[Cell]]:
    return [[name, *row] for name, row in zip([*NAMES, "oracle"], rows, strict=True)]


def draw_figure_three(findings: RegressionFindings) -> Figure:
    """A to D side by side, as in the paper's Figure 3."""
    figure = new_figure(width=13.0, height=3.4)
    axes = figure.subplots(1, 4)
    _draw_test_risks(axes[0], findings)
    _draw_densities(axes[1], findings)
    _draw_coefficients(axes[2], findings)
    _draw_quantiles(axes[3], findings)
    for letter, each in zip("ABCD", axes, strict=True):
        each.set_title(letter, loc="left", fontweight="bold")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_test_risks(axes: Axes, findings: RegressionFindings) -> None:
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


def _draw_densities(axes: Axes, findings: RegressionFindings) -> None:
    """B: densities of the risk over training domains."""
    for curve, colour in zip(findings.curves, shades(len(LEVELS)), strict=True):
        axes.plot(curve.grid, curve.pdf, color=colour)
    axes.set_yscale("log")
    axes.set_ylim(0.02, 200)
    axes.set_xlim(0, LARGEST_RISK_DRAWN)
    axes.set_xlabel("risk")
    axes.set_ylabel("density")


def _draw_coefficients(axes: Axes, findings: RegressionFindings) -> None:
    """C: coefficients against the level."""
    places = range(len(LEVELS))
    cause, effect = findings.frontier.coefficients.T
    axes.axhline(1, color=QUIET, linestyle=":", linewidth=1)
    axes.axhline(0, color=QUIET, linestyle=":", linewidth=1)
    axes.plot(places, cause, "o-", color=INK, label=r"$\beta_{\rm cause}$")
    axes.plot(places, effect, "s--", color=INK, label=r"$\beta_{\rm effect}$")
    axes.set_xticks(list(places), [printed_level(level) for level in LEVELS])
    axes.set_xlabel("α")
    axes.set_ylabel("coefficient")
    axes.legend(frameon=False)


def _draw_quantiles(axes: Axes, findings: RegressionFindings) -> None:
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


def draw_training_cdfs(findings: RegressionFindings) -> Figure:
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
