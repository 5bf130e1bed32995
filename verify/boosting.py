"""Gradient boosting at full size: its speed."""

from __future__ import annotations

from verify.registry import Options, Result, check, passed, run_benchmark


@check("boosting.speed", "a round with EQRM beside the built-in objective's", alone=True)
def speed(options: Options) -> Result:
    finished, found = run_benchmark(options, "boosting")
    speeds = found["speed"]
    assert isinstance(speeds, dict)
    parts = [f"{name} {s['ratio']:.2f} (bound {s['bound']:g})" for name, s in speeds.items()]
    told = f"times the built-in on {found['rows']:,} rows: {', '.join(parts)}"
    return passed(finished.code == 0, told, **found)
