"""The KDE quantile on a CUDA device: checks, then times. Needs torch, numpy and scipy only.

    PYTHONPATH=src python3 benchmarks/cuda_quantile.py

Checked is that nothing waits for the device, that CUDA graphs and torch.compile give the numbers
of eager mode, and these those of the CPU, for every law, size and level; benchmarks/cuda_oracle.py
compares with the truth. Prints Markdown. ``--device cpu`` runs the parts that need no CUDA.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from published import published_quantile
from tables import captured, gpu_device, markdown, measured_on
from timing import Budget, Timing, interleaved
from torch import Tensor

import eqrm

COUNTS = (2, 3, 10, 100, 1000, 44_930, 1_000_000)
LEVELS = ("0.1", "0.5", "0.75", "0.99", "1-e^-100", "1-e^-1000")
TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-11}
"""In float64 it was 1e-12 until gradients were 1.3e-12 apart: those of an H200 are up to 1.7e-12
off the truth (cuda_oracle.py, which allows 1e-10), those of the CPU 3e-16 there."""
TIMED_LEVELS = ("0.75", "1-e^-1000")
TIMED_COUNTS = (2, 100, 1000, 44_930, 1_000_000, 10_000_000)
LARGEST_FOR_BISECTION = 1_000_000
LARGEST_COMPILED = 1000
MODES = ("eager", "compiled", "graph", "mean", "mean graph", "published")

Objective = Callable[[Tensor], Tensor]
LAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "lognormal": lambda z: z.exp(),
    # No level may fall into the gap, where the quantile is not determined to 1e-6.
    "two-cluster": lambda z: (torch.arange(len(z)) % 5 < 3) * -4.0 + 5.0 + 0.01 * z,
    "ties": lambda z: z.round(),
    "equal": lambda z: torch.full_like(z, 0.7),
    # float32 has steps of 6e-8 here: a spread of 1e-6 is as equal as risks can be.
    "nearly equal": lambda z: 0.7 * (1.0 + 1e-6 * z),
}
"""What becomes of standard normal numbers."""


@dataclass(frozen=True)
class Outcome:
    """One line of the report: what was checked, on how many cases, the worst error."""

    name: str
    passed: bool
    cases: int
    worst: float | None
    note: str


def draw(law: str, m: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Risks of a law, the same on every machine."""
    normal = torch.randn(m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return LAWS[law](normal).to(dtype)


def kernel_options(m: int, device: torch.device | str) -> dict[str, dict[str, object]]:
    """The options of every kernel estimate under test, by name."""
    weights = torch.linspace(0.1, 2.0, m).to(device)  # a device rounds linspace otherwise
    weights[3::4] = 0.0
    options: dict[str, dict[str, object]] = {
        "kde": {},
        "kde weighted": {"weights": weights},
        "kde silverman": {"bandwidth": "silverman"},
        "kde scott": {"bandwidth": "scott"},
        "kde bandwidth 0.1": {"bandwidth": 0.1},
    }
    return {**options, "kde median": {"bandwidth": "median"}} if m <= 1024 else options


def objectives(m: int, device: torch.device | str, level: eqrm.Level) -> dict[str, Objective]:
    """Every estimator whose quantile a training step may differentiate, by name."""
    return {
        **{
            name: lambda r, options=options: eqrm.KDE(r, **options).quantile(level)  # type: ignore[misc]
            for name, options in kernel_options(m, device).items()
        },
        "kde superquantile": lambda r: eqrm.KDE(r).superquantile(level),
        "gaussian": lambda r: eqrm.Gaussian(r).quantile(level),
        "lognormal": lambda r: eqrm.distributions.LogNormal(r).quantile(level),
        "empirical": lambda r: eqrm.Empirical(r).quantile(level),
        "empirical superquantile": lambda r: eqrm.Empirical(r).superquantile(level),
    }


def value_and_gradient(objective: Objective, risks: Tensor) -> tuple[Tensor, Tensor]:
    """The quantile and its gradient in the risks."""
    leaf = risks.detach().clone().requires_grad_()
    value = objective(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def difference(found: Iterable[Tensor], wanted: Iterable[Tensor], risks: Tensor) -> float:
    """The larger of the relative errors of value and gradient; infinite where one is NaN."""
    value, gradient = (x.detach().cpu().double() for x in found)
    true_value, true_gradient = (x.detach().cpu().double() for x in wanted)
    scale = max(float(true_value.abs()), float(risks.max() - risks.min())) or 1.0
    errors = torch.stack(
        [
            (value - true_value).abs() / scale,
            (gradient - true_gradient).abs().max() / true_gradient.abs().max(),
        ]
    )
    return float(errors.nan_to_num(math.inf).max())


def in_a_gap(name: str, risks: Tensor, level: eqrm.Level, value: Tensor) -> bool:
    """Whether ``value`` solves the equation in a gap between risks, where no digits of it count.

    The same rule as against 50-digit arithmetic: f(q)·(max R − min R) < 1e-3·min(α, 1−α), and
    the tail probability at ``value`` is right.
    """
    options = kernel_options(len(risks), "cpu").get(name)
    if options is None or level.alpha == 1.0:
        return False
    wide, at = risks.cpu().double(), value.detach().cpu().double()
    estimate = eqrm.KDE(wide, **options)  # type: ignore[arg-type]
    flat = float(estimate.log_prob(at).exp() * (wide.max() - wide.min()))
    right = abs(float(estimate.sf(at)) / level.tail - 1.0) <= TOLERANCES[torch.float32]
    return right and flat < 1e-3 * min(level.alpha, level.tail)


Errors = Iterator[tuple[str, float]]
"""A case, and its error: infinite where it failed."""


def cases(name: str, counts: Iterable[int], device: torch.device) -> Iterator[tuple[str, int, str]]:
    """(words, m, level) of all sizes at which an estimator is tried."""
    for m in counts:
        if name in objectives(m, device, eqrm.Level(0.5)):
            for text in LEVELS:
                yield f"m = {m}, {text}", m, text


def attempted(action: Callable[[], float]) -> float:
    """The error that an action finds, or infinity where it cannot be done."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - dynamo raises many kinds
        print(f"  {type(error).__name__}: {str(error).strip().splitlines()[:1]}", file=sys.stderr)
        return math.inf


def not_comparable(name: str, law: str) -> bool:
    """Whether a law has no one right answer for an estimator.

    Quartiles, medians and empirical quantiles of ties: which of them carries a slope is open.
    Logarithms need positive risks.
    """
    if name == "lognormal":
        return law == "ties"
    by_rank = name.startswith("empirical") or name in ("kde median", "kde silverman")
    return by_rank and law in ("ties", "equal", "nearly equal")


def waiting(name: str, counts: Iterable[int], device: torch.device) -> Errors:
    """Forward and backward while everything that makes the host wait is an error."""
    for words, m, text in cases(name, counts, device):
        objective = objectives(m, device, eqrm.Level.parse(text))[name]
        risks = draw("lognormal", m).to(device)

        def once(objective: Objective = objective, risks: Tensor = risks) -> float:
            value_and_gradient(objective, risks)  # first uses load kernels
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            try:
                value_and_gradient(objective, risks)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            return 0.0

        yield words, attempted(once)


def graphs(name: str, counts: Iterable[int], device: torch.device) -> Errors:
    """A CUDA graph of one law's risks replayed with those of every law, against eager mode."""
    for words, m, text in cases(name, counts, device):
        objective = objectives(m, device, eqrm.Level.parse(text))[name]
        static = draw("lognormal", m, seed=9).to(device).requires_grad_()
        found: list[Tensor] = []

        def pass_once(
            objective: Objective = objective, static: Tensor = static, found: list[Tensor] = found
        ) -> None:
            value = objective(static)
            found[:] = [value, *torch.autograd.grad(value, static)]

        replay = captured(pass_once)
        for law in LAWS:
            if not_comparable(name, law):
                continue
            risks = draw(law, m, seed=1).to(device)
            with torch.no_grad():
                static.copy_(risks)
            replay()
            yield f"{law}, {words}", difference(found, value_and_gradient(objective, risks), risks)


def compiled(name: str, counts: Iterable[int], device: torch.device) -> Errors:
    """torch.compile(fullgraph=True) of forward, with backward, against eager mode."""
    for words, m, text in cases(name, [m for m in counts if m in (100, 44_930)], device):
        if name == "kde superquantile" and m > LARGEST_COMPILED:
            continue  # an assertion in inductor of torch 2.11
        objective = objectives(m, device, eqrm.Level.parse(text))[name]
        risks = draw("lognormal", m, seed=1).to(device)

        def once(objective: Objective = objective, risks: Tensor = risks) -> float:
            torch.compiler.reset()
            fast = torch.compile(objective, fullgraph=True, dynamic=False)
            found = value_and_gradient(fast, risks)
            return difference(found, value_and_gradient(objective, risks), risks)

        yield words, attempted(once)


def against_cpu(
    name: str, counts: Iterable[int], device: torch.device, dtype: torch.dtype = torch.float32
) -> Errors:
    """Value and gradient against those of the CPU, of every law."""
    for words, m, text in cases(name, counts, device):
        level = eqrm.Level.parse(text)
        for law in LAWS:
            if not_comparable(name, law):
                continue
            risks = draw(law, m, dtype)
            here = value_and_gradient(objectives(m, device, level)[name], risks.to(device))
            there = value_and_gradient(objectives(m, "cpu", level)[name], risks)
            error = difference(here, there, risks)
            gap = error > TOLERANCES[dtype] and in_a_gap(name, risks, level, here[0])
            yield f"{law}, {words}", 0.0 if gap else error


def not_finite(device: torch.device) -> Errors:
    """NaN and infinite risks give NaN."""
    for m in (2, 1000, 44_930):
        for value in (math.nan, math.inf, -math.inf):
            for rule in ((), (0.1,)):
                risks = draw("lognormal", m).to(device)
                risks[m - 1] = value
                seen = eqrm.KDE(risks, *rule).quantile(0.9)
                yield f"m = {m}, {value}", 0.0 if bool(seen.isnan()) else math.inf


def judged(title: str, errors: Errors, tolerance: float = TOLERANCES[torch.float32]) -> Outcome:
    """All cases of a check."""
    found = list(errors)
    words, worst = max(found, key=lambda each: each[1])
    shown = worst if math.isfinite(worst) else None
    return Outcome(title, worst <= tolerance, len(found), shown, f"worst: {words}")


def outcomes(device: torch.device, counts: Iterable[int]) -> Iterator[Outcome]:
    """The checks that this device allows."""
    double = torch.float64
    for name in objectives(2, device, eqrm.Level(0.5)):
        if device.type == "cuda":
            yield judged(f"no synchronisation: {name}", waiting(name, counts, device))
            yield judged(f"CUDA graph = eager: {name}", graphs(name, counts, device))
        yield judged(f"torch.compile = eager: {name}", compiled(name, counts, device))
        yield judged(f"float32 = CPU: {name}", against_cpu(name, counts, device))
        if name in ("kde", "kde weighted", "kde bandwidth 0.1"):
            errors = against_cpu(name, counts, device, double)
            yield judged(f"float64 = CPU: {name}", errors, TOLERANCES[double])
    if device.type == "cuda":
        yield judged("risks that are not finite", not_finite(device))


def timed_actions(device: torch.device, m: int, text: str) -> dict[str, Callable[[], object]]:
    """Forward and backward of the quantile in each mode, and of what it is compared with."""
    level = eqrm.Level.parse(text)
    risks = draw("lognormal", m).to(device).requires_grad_()

    def quantile(r: Tensor) -> Tensor:
        return eqrm.KDE(r).quantile(level)

    def forward_backward(objective: Objective) -> Callable[[], None]:
        def action() -> None:
            risks.grad = None
            objective(risks).backward()

        return action

    actions: dict[str, Callable[[], object]] = {
        "eager": forward_backward(quantile),
        "mean": forward_backward(Tensor.mean),
    }
    if m <= LARGEST_COMPILED:
        torch.compiler.reset()
        fast = torch.compile(quantile, fullgraph=True, dynamic=False)
        actions["compiled"] = forward_backward(fast)
    if device.type == "cuda":
        actions["graph"] = captured(actions["eager"])
        actions["mean graph"] = captured(actions["mean"])
    if m <= LARGEST_FOR_BISECTION and text != "1-e^-1000":
        actions["published"] = forward_backward(lambda r: published_quantile(r, level.alpha))
    return actions


def timing_table(rows: dict[tuple[int, str], dict[str, Timing]]) -> str:
    """Microseconds of each mode and the ratios that matter."""
    pairs = [("eager", "mean"), ("graph", "mean graph")]
    pairs += [("published", "eager"), ("published", "graph")]
    header = ["m", "level", *(f"{mode} µs" for mode in MODES)]
    header += [" / ".join(pair) for pair in pairs]
    cells = []
    for (m, text), timings in rows.items():
        times = [f"{1e6 * timings[x].median:.1f}" if x in timings else "-" for x in MODES]
        ratios = [
            f"{timings[above].times(timings[below]):.1f}" if {above, below} <= set(timings) else "-"
            for above, below in pairs
        ]
        cells.append([f"{m:,}", text, *times, *ratios])
    return markdown(header, cells)


def main(arguments: list[str]) -> int:
    """Check, time, print; 1 when a check fails."""
    device = gpu_device(arguments, __doc__)
    if device is None:
        return 2
    on_gpu = device.type == "cuda"
    found: list[Outcome] = []
    for outcome in outcomes(device, COUNTS if on_gpu else (2, 100)):
        found.append(outcome)
        print(f"{'PASS' if outcome.passed else 'FAIL'} {outcome.name}", file=sys.stderr, flush=True)
    budget, synchronise = Budget(9, 0.01, 3.0), torch.cuda.synchronize if on_gpu else None
    rows = {
        (m, text): interleaved(timed_actions(device, m, text), budget, synchronise)
        for m in (TIMED_COUNTS if on_gpu else TIMED_COUNTS[:3])
        for text in TIMED_LEVELS
    }
    checks = [
        [o.name, "PASS" if o.passed else "FAIL", str(o.cases), f"{o.worst}", o.note] for o in found
    ]
    header = ["check", "result", "cases", "worst relative error", "note"]
    parts = [measured_on(device.type), markdown(header, checks), timing_table(rows)]
    failed = [each.name for each in found if not each.passed]
    print("\n\n".join([*parts, f"{len(found)} checks, failed: {', '.join(failed) or 'none'}"]))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
