"""The objectives at full size: many domains, and where training ends."""

from __future__ import annotations

from verify.registry import Options, Result, check, passed, run_benchmark


@check(
    "objectives.many-domains",
    "10,000 domains: quantile and gradient of the risk memory, and what is learned",
)
def many_domains(options: Options) -> Result:
    finished, content = run_benchmark(options, "many_domains")
    verdicts: list[dict[str, object]] = content["verdicts"]  # type: ignore[assignment]
    failed = [f"{v['claim']}: {v['measured']}" for v in verdicts if not v["holds"]]
    summary = f"{len(verdicts) - len(failed)} of {len(verdicts)} claims hold"
    return passed(finished.code == 0, "; ".join([summary, *failed]), verdicts=verdicts)


@check("objectives.quadratic-worlds", "exact EQRM ends at or below ERM and the published gradient")
def quadratic_worlds(options: Options) -> Result:
    finished, content = run_benchmark(options, "quadratic_worlds")
    rows: list[dict[str, float]] = content["rows"]  # type: ignore[assignment]
    ends = ", ".join(
        f"m={row['domains']} α={row['alpha']:g}: "
        f"{row['erm']:.3f}/{row['published']:.3f}/{row['exact']:.3f}"
        for row in rows
    )
    return passed(finished.code == 0, f"mean end quantile of ERM/published/exact {ends}", **content)
