"""Issue 5, the statistics: certificates, noise and comparisons at full size."""

from __future__ import annotations

from verify.objectives import run_tests
from verify.registry import Options, Result, check, passed

from evaluation.noisy_worlds import KINDS, outcome
from evaluation.noisy_worlds import SIZES as SIZES_MEASURED
from evaluation.worlds import (
    LAWS,
    TRUE_LAWS,
    Coverage,
    measured_risk_coverage,
    refused,
    true_risk_coverage,
)

WORLDS = 2000
SIZES = {5: (0.5,), 10: (0.5, 0.7), 29: (0.5, 0.9), 60: (0.9, 0.95), 150: (0.9,), 500: (0.9, 0.99)}


def judged(found: list[Coverage], more: str) -> Result:
    """PASS if every certificate held as often as stated; the worst is named."""
    failed = [str(coverage) for coverage in found if not coverage.holds]
    worst = min(found, key=lambda c: (c.held - c.stated) / max(c.error, 1e-9))
    exact = [c for c in found if c.exact is not None]
    summary = f"{len(found) - len(failed)} of {len(found)} hold, {more}; least margin: {worst}"
    if exact:
        away = max(abs(c.held - c.exact) / max(c.error / 4, 1e-9) for c in exact)
        summary += f"; {len(exact)} exact ones at most {away:.1f} standard errors from computed"
    return passed(not failed, "; ".join([summary, *failed]), all=[str(c) for c in found])


@check("5.1", "coverage by simulation: measured risk of new domains, refusals")
def measured_risk(options: Options) -> Result:
    found: list[Coverage] = []
    for law in LAWS:
        for m, alphas in SIZES.items():
            for alpha in alphas:
                for confidence in (0.9, 0.95):
                    found += measured_risk_coverage(law, m, alpha, confidence, WORLDS, seed=5)
    refusals = [refused(law, m, 0.9, 0.95) for law in LAWS for m in (2, 5, 10, 28)]
    result = judged(found, f"{WORLDS} worlds each, {sum(refusals)} of {len(refusals)} refusals")
    return result if all(refusals) else Result("FAIL", result.summary, result.details)


@check("5.1.true", "coverage by simulation: true risk of new domains")
def true_risk(options: Options) -> Result:
    found: list[Coverage] = []
    for law in TRUE_LAWS:
        for m, alpha in ((5, 0.5), (29, 0.9), (100, 0.9)):
            found += true_risk_coverage(law, m, alpha, 0.95, WORLDS, seed=6)
        found += true_risk_coverage(law, 500, 0.95, 0.95, WORLDS, seed=6, methods=("auto",))
    return judged(found, f"{WORLDS} worlds each")


@check("5.2", "order statistics and binomial bounds against scipy; 29 domains")
def against_scipy(options: Options) -> Result:
    counts = run_tests(options, "order-statistics", "tests/evaluation/test_order_statistics.py")
    return counts.result("agreement to 1e-12, and 29 domains for α = .9 at 95%")


@check("5.5", "de-noising: lower error of the .9-quantile where noise dominates, no harm elsewhere")
def denoising(options: Options) -> Result:
    found = [
        outcome(law, losses, m, n, worlds=200, unequal=unequal)
        for law, losses in KINDS
        for unequal in (False, True)
        for m, n in SIZES_MEASURED
    ]
    noisy = [o for o in found if o.noise_share >= 0.5]
    quiet = [o for o in found if o.noise_share < 0.5]
    worst_noisy, worst_quiet = (max(group, key=lambda o: o.ratio) for group in (noisy, quiet))
    mean_noisy, mean_quiet = (sum(o.ratio for o in group) / len(group) for group in (noisy, quiet))
    summary = (
        f"noise of half or more in {len(noisy)} worlds: error × {mean_noisy:.2f} on average, at "
        f"worst {worst_noisy}; less in {len(quiet)}: × {mean_quiet:.2f}, at worst {worst_quiet}"
    )
    helps = all(o.ratio < 1.0 + 2.0 * o.simulation_error for o in noisy) and mean_noisy < 0.6
    holds = helps and worst_quiet.ratio < 1.08 and mean_quiet < 1.0
    return passed(holds, summary, all=[str(o) for o in found])
