"""Gradient boosting at full size: unseen days, speed, and many small domains."""

from __future__ import annotations

import os

from verify.registry import Options, Result, check, passed, run_benchmark, skipped


@check(
    "boosting.flights",
    "boosted EQRM against boosted ERM on unseen days; speed on 327,346 rows",
    alone=True,
)
def flights(options: Options) -> Result:
    finished, found = run_benchmark(options, "boosting")
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
    return passed(finished.code == 0, "; ".join(parts), **found)


@check(
    "boosting.small-domains",
    "Tox21 by scaffold: many domains of one molecule, whose spread is mostly noise",
)
def small_domains(options: Options) -> Result:
    if not os.environ.get("EQRM_DATA"):
        return skipped("set EQRM_DATA to a folder with molecules/tox21.csv.gz")
    finished, found = run_benchmark(options, "small_domains")
    models = found["models"]
    assert isinstance(models, dict)
    noise = min(each["noise_percent"] for each in models.values())
    parts = [
        f"{name} {each['quantile_change_percent']:+.0f}% / {each['mean_change_percent']:+.0f}%"
        for name, each in models.items()
    ]
    better = [name for name, each in models.items() if each["quantile_above_constant"] < 0.0]
    constant = f"only {', '.join(better)} beat" if better else "no model's .9-quantile beats"
    return passed(
        finished.code == 0 and noise >= 50.0,
        f"{found['domains']} domains, {found['of_one']} of one molecule; at least {noise:.0f}% of "
        f"the spread is noise; α = .9 changes the .9-quantile / the mean: {', '.join(parts)}; "
        f"{constant} the constant ½",
        **found,
    )
