"""The objectives at full size: many domains."""

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
