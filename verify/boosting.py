"""Issue 6, gradient boosting: gradients, unseen days, speed, and many small domains."""

from __future__ import annotations

import os

from verify.objectives import run_benchmark, run_tests
from verify.registry import Options, Result, check, passed, skipped

TESTS = "tests/estimators"


@check("6.3.boosting", "the four boosted estimators: optima, early stopping, routing, saving")
def boosted_estimators(options: Options) -> Result:
    counts = run_tests(options, "boosting-estimators", f"{TESTS}/test_boosting_estimators.py")
    return counts.result("least objective, early stopping, GridSearchCV with groups, save and load")


@check("6.4.gradients", "gradients by finite differences of the quantile, Hessians, first round")
def gradients(options: Options) -> Result:
    files = [f"{TESTS}/test_boosting_{name}.py" for name in ("objective", "losses")]
    counts = run_tests(options, "boosting-gradients", *files)
    return counts.result("also negative weights, equal risks, and the built-in with one domain")


@check("6.4.flights", "boosted EQRM against boosted ERM on unseen days; speed on 327,346 rows")
def flights(options: Options) -> Result:
    code, found = run_benchmark(options, "boosting")
    speed, unseen = found["speed"], found["unseen"]
    assert isinstance(speed, dict)
    assert isinstance(unseen, dict)
    parts = [
        f"{name}: .9-quantile {gain['quantile_change_percent']:+.1f}% ± "
        f"{gain['quantile_change_error']:.1f} ({gain['splits_won']} of {gain['splits']} splits), "
        f"mean {gain['mean_change_percent']:+.1f}%, {speed[name]['ratio']:.2f} times the built-in "
        f"(bound {speed[name]['bound']:g})"
        for name, gain in unseen.items()
    ]
    return passed(code == 0, "; ".join(parts), **found)


@check("6.6", "Tox21 by scaffold: many domains of one molecule; the noise is announced")
def small_domains(options: Options) -> Result:
    if not os.environ.get("EQRM_DATA"):
        return skipped("set EQRM_DATA to a folder with molecules/tox21.csv.gz")
    counts = run_tests(options, "small-domains", f"{TESTS}/test_many_small_domains.py")
    code, found = run_benchmark(options, "small_domains")
    models = found["models"]
    assert isinstance(models, dict)
    noise = min(each["noise_percent"] for each in models.values())
    parts = [
        f"{name} {each['quantile_change_percent']:+.0f}% / {each['mean_change_percent']:+.0f}%"
        for name, each in models.items()
    ]
    better = [name for name, each in models.items() if each["quantile_above_constant"] < 0.0]
    constant = f"only {', '.join(better)} beat" if better else "no model's .9-quantile beats"
    sound = counts.failed == counts.skipped == 0 and counts.passed > 0
    return passed(
        code == 0 and sound and noise >= 50.0,
        f"{found['domains']} domains, {found['of_one']} of one molecule; at least {noise:.0f}% of "
        f"the spread is noise; α = .9 changes the .9-quantile / the mean: {', '.join(parts)}; "
        f"{constant} the constant ½; {counts.passed} tests passed",
        **found,
    )
