"""The tables of the linear-regression experiment."""

from __future__ import annotations

from eqrm.reproductions.base import Cell, Table
from eqrm.reproductions.linear_regression.expected import exact_coefficients
from eqrm.reproductions.linear_regression.experiment import Findings
from eqrm.reproductions.linear_regression.settings import LEVELS, TEST_QUANTILES, level_name

NAMES = [f"α = {level_name(level)}".replace("= →", "→") for level in LEVELS]


def all_tables(findings: Findings) -> list[Table]:
    """Test risks, predictors, the finer path, exceptions, errors of the Q-Q curves."""
    return [
        *test_risk_tables(findings),
        predictors_table(findings),
        path_table(findings),
        exceptions_table(findings),
        quantile_error_table(findings),
    ]


def test_risk_tables(findings: Findings) -> list[Table]:
    """A: risks on sampled test domains, and without sampling noise."""
    columns = ["predictor", *map(str, TEST_QUANTILES)]
    title = "A: risk on test domains at quantiles of σ2"
    exact = "A, without sampling noise in the test domains"
    return [
        Table("test_risks", title, columns, _named(findings.test_risks.tolist())),
        Table("exact_test_risks", exact, columns, _named(findings.exact_test_risks.tolist())),
    ]


def predictors_table(findings: Findings) -> Table:
    """B and C."""
    frontier = findings.frontier
    limit = [float(exact_coefficients(level, findings.variances)[1]) for level in LEVELS]
    return Table(
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


def path_table(findings: Findings) -> Table:
    """The finer grid of levels."""
    path = findings.path
    return Table(
        "path",
        f"The way to the causal predictor: {len(path.levels)} levels",
        ["level", "β cause", "β effect", "mean risk", "own quantile of risk"],
        [
            [str(level), *path.coefficients[i].tolist(), float(mean), float(path.values[i])]
            for i, (level, mean) in enumerate(zip(path.levels, path.mean_risks, strict=True))
        ],
    )


def exceptions_table(findings: Findings) -> Table:
    """A in other draws of the domains."""
    return Table(
        "exceptions",
        "A in other draws of the domains (closed form): exceptions by test quantile",
        ["estimator", "draws with one", *map(str, TEST_QUANTILES)],
        [
            [each.estimator, float(each.draws), *map(float, each.by_quantile)]
            for each in findings.exceptions
        ],
    )


def quantile_error_table(findings: Findings) -> Table:
    """D."""
    curves = findings.quantiles
    columns = (curves.error, curves.standard_error, curves.exact_error)
    return Table(
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
