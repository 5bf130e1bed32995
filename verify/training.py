"""The trainer at full size: the cost of a step, and many domains."""

from __future__ import annotations

from verify.registry import Options, Result, check, passed, run_benchmark


@check(
    "training.step-cost",
    "a step by hand or of the trainer: EQRM ≤ 1.05 ERM, the data path ≤ 5%",
    alone=True,
)
def step_cost(options: Options) -> Result:
    finished, content = run_benchmark(options, "training_step")
    ratios: list[str] = content["ratios"]  # type: ignore[assignment]
    return passed(finished.code == 0, f"EQRM/ERM: {'; '.join(ratios)}", **content)


@check(
    "training.many-domains",
    "45,000 domains: constant memory, at most 3 ms and 1.1 ERM steps",
    alone=True,
)
def many_domains(options: Options) -> Result:
    """The benchmark's last lines say what was found."""
    finished, _ = run_benchmark(options, "many_domains_training")
    return passed(finished.code == 0, finished.last_lines(2))
