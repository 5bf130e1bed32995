"""Gradient boosting at full size: unseen days, speed, and many small domains."""

from __future__ import annotations

import os

from verify.registry import Options, Result, check, passed, run_benchmark, skipped


@check("boosting.unseen-days", "boosted EQRM against boosted ERM on unseen days")
def unseen_days(options: Options) -> Result:
    finished, found = run_benchmark(options, "boosting", "--part", "unseen")
    gains = found["unseen"]
    assert isinstance(gains, dict)
    parts = [
        f"{name}: .9-quantile {gain['quantile_change_percent']:+.1f}% ± "
        f"{gain['quantile_change_half']:.1f} ({gain['splits_won']} of {gain['splits']} splits), "
        f"mean {gain['mean_change_percent']:+.1f}%"
        for name, gain in gains.items()
    ]
    return passed(finished.code == 0, "; ".join(parts), **found)


@check("boosting.speed", "a round with EQRM beside the built-in objective's", alone=True)
def speed(options: Options) -> Result:
    finished, found = run_benchmark(options, "boosting", "--part", "speed")
    speeds = found["speed"]
    assert isinstance(speeds, dict)
    parts = [f"{name} {s['ratio']:.2f} (bound {s['bound']:g})" for name, s in speeds.items()]
    told = f"times the built-in on {found['rows']:,} rows: {', '.join(parts)}"
    return passed(finished.code == 0, told, **found)


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
