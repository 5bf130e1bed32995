"""Figure 3's claims, by number."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from studies.linear_regression.experiment import RegressionFindings
from studies.linear_regression.settings import (
    CLOSED_FORM,
    FIGURE_A,
    FIGURE_B,
    FIGURE_C,
    FIGURE_CDF,
    FIGURE_D,
    LEVELS,
    TEST_QUANTILES,
    RegressionSettings,
    exact_coefficients,
    expected_winner,
    printed_level,
)
from studies.outcome import Check


def check_regression(findings: RegressionFindings, settings: RegressionSettings) -> list[Check]:
    """Every check of Figure 3 A to D and of the CDF figure."""
    return [
        *_check_test_quantiles(findings),
        *_check_risk_distributions(findings),
        *_check_coefficients(findings, settings),
        *_check_without_sampling(findings, settings),
        *_check_quantile_curves(findings),
        _check_bounds(findings),
        _check_other_draws(findings, settings),
    ]


def _check_test_quantiles(findings: RegressionFindings) -> list[Check]:
    """A: at each test quantile that is a level, the predictor of that level is best."""
    checks = []
    for column, quantile in enumerate(TEST_QUANTILES):
        wanted = expected_winner(quantile)
        risks = findings.test_risks[:-1, column].tolist()
        best = min(range(len(LEVELS)), key=risks.__getitem__)
        others = min(risk for index, risk in enumerate(risks) if index != wanted)
        needed = f"α {printed_level(LEVELS[wanted])} has the lowest risk"
        if abs(LEVELS[wanted].alpha - quantile) > 1e-9:
            needed += ", the next level: none was trained for this quantile"
        checks.append(
            Check(
                f"test quantile {quantile}",
                best == wanted,
                f"α {printed_level(LEVELS[wanted])} has {risks[wanted]:.4f}, "
                f"the best of the others {others:.4f}",
                needed,
                FIGURE_A,
            )
        )
    return checks


def _check_risk_distributions(findings: RegressionFindings) -> list[Check]:
    """B: the spread of the risk falls, and what is left is the causal predictor's risk."""
    spread = findings.spread.tolist()
    last = float(findings.frontier.mean_risks[-1])
    causal = float(findings.exact_test_risks[-1, 0])
    return [
        Check(
            "the spread of risk over domains shrinks with α",
            _falling(spread),
            _arrows(spread),
            "each below the one before",
            FIGURE_B,
        ),
        Check(
            "at α → 1 the risk is that of the causal predictor, everywhere",
            abs(last / causal - 1) < 0.05 and spread[-1] < 0.02 * causal,
            f"mean {last:.4f} against {causal:.4f}, standard deviation {spread[-1]:.4f}",
            "mean within 5%, standard deviation below 2% of it",
            FIGURE_B,
        ),
    ]


def _check_coefficients(findings: RegressionFindings, settings: RegressionSettings) -> list[Check]:
    """C: coefficients approach (1, 0), and are those of the closed form up to sampling noise."""
    found = torch.from_numpy(findings.frontier.coefficients)
    distance = (found - torch.tensor([1.0, 0.0], dtype=torch.float64)).norm(dim=1).tolist()
    exact = torch.stack([exact_coefficients(level, findings.variances) for level in LEVELS])
    off = (found - exact).abs().amax(dim=1)
    return [
        Check(
            "coefficients approach the causal ones as α grows",
            _falling(distance),
            f"distance from (1, 0) {_arrows(distance)}",
            "each below the one before",
            FIGURE_C,
        ),
        Check(
            "at α → 1 they are the causal ones, up to sampling noise",
            distance[-1] < settings.near_causal,
            f"({found[-1, 0]:.4f}, {found[-1, 1]:.4f})",
            f"within {settings.near_causal} of (1, 0)",
            FIGURE_C,
        ),
        Check(
            "coefficients are those of infinitely many samples",
            float(off[:-1].max()) < settings.near_closed_form,
            f"largest distance over α < 1: {float(off[:-1].max()):.4f}",
            f"below {settings.near_closed_form}",
            CLOSED_FORM,
        ),
        Check(
            "the oracle is the causal predictor",
            float((findings.oracle - torch.tensor([1.0, 0.0])).norm()) < settings.near_causal,
            f"({findings.oracle[0]:.4f}, {findings.oracle[1]:.4f})",
            f"within {settings.near_causal} of (1, 0)",
            "§6.1: least squares with X2 shuffled",
        ),
    ]


def _check_without_sampling(
    findings: RegressionFindings, settings: RegressionSettings
) -> list[Check]:
    """C once more, from the population moments of the same domains and deeper levels."""
    path = findings.exact_path
    exact = torch.stack([exact_coefficients(level, findings.variances) for level in path.levels])
    found = torch.from_numpy(path.coefficients)
    off = float((found - exact).abs().max())
    causal = torch.tensor([1.0, 0.0], dtype=torch.float64)
    distance = (found - causal).norm(dim=1).tolist()
    return [
        Check(
            "without sampling noise: coefficients are those of the closed form",
            off < settings.exact,
            f"largest distance {off:.1e}, α = 0.25 to {path.levels[-1]}",
            f"below {settings.exact:g}",
            CLOSED_FORM,
        ),
        Check(
            "without sampling noise: they approach the causal ones",
            _falling(distance) and distance[-1] < settings.exact_near_causal,
            f"distance from (1, 0) {_arrows(distance)}",
            f"each below the one before, the last below {settings.exact_near_causal:g}",
            FIGURE_C,
        ),
    ]


def _check_quantile_curves(findings: RegressionFindings) -> list[Check]:
    """D: the error of the Q-Q curve falls with the number of domains."""
    curves = findings.quantiles
    sizes = ", ".join(map(str, curves.sizes))
    rows = (
        ("from all domains", curves.error, FIGURE_D),
        ("of the known law", curves.exact_error, CLOSED_FORM),
    )
    return [
        Check(
            f"the distance to the quantiles {what} shrinks with m = {sizes}",
            _falling(error.tolist()),
            _arrows(error.tolist()),
            "each below the one before",
            source,
        )
        for what, error, source in rows
    ]


def _check_bounds(findings: RegressionFindings) -> Check:
    """The CDF figure: at height α, the predictor trained for α has the leftmost curve."""
    table = findings.frontier.quantile_risks
    best = table.argmin(axis=0).tolist()
    exceptions = [printed_level(LEVELS[j]) for j, i in enumerate(best) if i != j]
    return Check(
        "at each level the predictor trained for it has the lowest bound on risk",
        not exceptions,
        f"{len(LEVELS) - len(exceptions)} of {len(LEVELS)} levels"
        + (f", except {', '.join(exceptions)}" if exceptions else ""),
        "all levels",
        FIGURE_CDF,
    )


def _check_other_draws(findings: RegressionFindings, settings: RegressionSettings) -> Check:
    """A in other draws of the domains: no exception where the bandwidth resists the tail."""
    counts = {each.estimator: each.draws for each in findings.exceptions}
    return Check(
        f"the claim of A in {settings.draws} draws of {settings.domains_per_draw} domains",
        counts["KDE, Silverman"] == counts["empirical"] == 0,
        ", ".join(f"{name}: {count} draws with an exception" for name, count in counts.items()),
        "none with Silverman's bandwidth and the empirical quantile",
        CLOSED_FORM,
    )


def _falling(values: Sequence[float]) -> bool:
    """Whether each value is below the one before."""
    return all(
        after < before for before, after in zip(list(values)[:-1], list(values)[1:], strict=True)
    )


def _arrows(values: Sequence[float]) -> str:
    """Numbers in a row."""
    return " → ".join(f"{value:.3g}" for value in values)
