"""More checks on a CUDA device: float64 against the CPU, equal risks, ties, risks not finite.

Like those of benchmarks/cuda_checks.py, and run by benchmarks/cuda_quantile.py too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from cuda_checks import (
    LEVELS,
    Outcome,
    difference,
    draw,
    in_a_gap,
    objectives,
    value_and_gradient,
)

import eqrm
from eqrm.errors import DomainDataError

EDGES = {
    "equal risks": lambda m, g: torch.full((m,), 0.7, dtype=torch.float64),
    "spread 1e-9": lambda m, g: 0.7 + 1e-9 * torch.randn(m, dtype=torch.float64, generator=g),
    "ties": lambda m, g: torch.randn(m, dtype=torch.float64, generator=g).round(),
    "lognormal": lambda m, g: torch.randn(m, dtype=torch.float64, generator=g).exp(),
}


def check_double_precision(device: torch.device, counts: list[int]) -> Iterator[Outcome]:
    """Value and gradient in float64 against the CPU, with equal risks, ties and one risk."""
    for law, make in EDGES.items():
        worst, cases, gaps, note = 0.0, 0, 0, ""
        for m in (1, *counts):
            risks = make(m, torch.Generator().manual_seed(m))
            for name in ("kde", "kde weighted", "kde bandwidth 0.1"):
                for text in (*LEVELS, "1-e^-1e30"):
                    level = eqrm.Level.parse(text)
                    here = value_and_gradient(objectives(m, device)[name](level), risks.to(device))
                    cpu = objectives(m, torch.device("cpu"))[name](level)
                    error = difference(here, value_and_gradient(cpu, risks), risks)
                    cases += 1
                    if error > 1e-12 and in_a_gap(name, risks, level, here[0]):
                        gaps += 1
                    elif error > worst:
                        worst, note = error, f"worst: {name}, m = {m}, {text}"
        if gaps:
            note += f"; {gaps} in gaps between risks, judged by their residual"
        yield Outcome(f"float64 agrees with the CPU: {law}", worst <= 1e-12, cases, worst, note)


def check_bad_risks(device: torch.device) -> Iterator[Outcome]:
    """A NaN risk passes through visibly, and ``validate=True`` names it."""
    risks = torch.tensor([0.1, float("nan"), 0.3], device=device)
    if device.type == "cuda":
        passes = bool(eqrm.KDE(risks).quantile(0.9).isnan())
        yield Outcome("a NaN risk gives NaN without a check", passes, 1, math.nan)
        bad = [
            eqrm.KDE(draw("uniform", m, device).index_fill_(0, place, value), *rule).quantile(level)
            for m in (2, 1000, 44_930)
            for place in (torch.tensor([0], device=device), torch.tensor([m - 1], device=device))
            for value in (math.nan, math.inf, -math.inf)
            for rule in ((), (0.1,))
            for level in (0.1, 0.9, "1-e^-1000")
        ]
        passes = all(bool(value.isnan()) for value in bad)
        yield Outcome("NaN and infinite risks give NaN", passes, len(bad), math.nan)
    try:
        eqrm.KDE(risks, validate=True).quantile(0.9)
    except DomainDataError as error:
        yield Outcome("validate=True names it", "1" in str(error), 1, math.nan, str(error))
    else:
        yield Outcome("validate=True names it", False, 1, math.nan, "no error was raised")
