"""Checks on a CUDA device: no host synchronisation, CUDA graphs, torch.compile, accuracy.

Each check yields :class:`Outcome`; benchmarks/cuda_quantile.py runs them and prints the result.
With ``torch.device("cpu")`` the checks that need CUDA are left out, so that the rest of this file
can be tried on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import eqrm

LEVELS = ("0.1", "0.5", "0.75", "0.99", "1-e^-100", "1-e^-1000")
LAWS = ("lognormal", "uniform", "pareto", "two-cluster", "nearly-equal")
TOLERANCE = 1e-6

Objective = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Outcome:
    """One line of the report: what was checked, on how many cases, the worst error."""

    name: str
    passed: bool
    cases: int
    worst: float
    note: str = ""


def draw(law: str, m: int, device: torch.device, seed: int = 0) -> Tensor:
    """Risks of a law in float32, the same on every machine."""
    rng = np.random.default_rng([LAWS.index(law), m, seed])
    if law == "lognormal":
        values = np.exp(rng.standard_normal(m))
    elif law == "uniform":
        values = rng.uniform(0.0, 1.0, m)
    elif law == "pareto":
        values = 1.0 + rng.pareto(1.5, m)
    elif law == "two-cluster":
        # No level may fall into the gap, where the quantile is not determined to 1e-6.
        values = np.where(np.arange(m) % 5 < 3, 1.0, 5.0) + 0.01 * rng.standard_normal(m)
    else:
        # float32 has steps of 6e-8 here: a spread of 1e-6 is as equal as risks can be.
        values = 0.7 * (1.0 + 1e-6 * rng.standard_normal(m))
    return torch.from_numpy(values.astype(np.float32)).to(device)


def draw_weights(m: int, device: torch.device) -> Tensor:
    """Unequal weights with zeros among them, on the device."""
    weights = np.random.default_rng(m).uniform(0.1, 2.0, m).astype(np.float32)
    weights[3::4] = 0.0
    return torch.from_numpy(weights).to(device)


def kernel_estimates(m: int, device: torch.device) -> dict[str, dict[str, object]]:
    """The options of every kernel estimate under test, by name."""
    options: dict[str, dict[str, object]] = {
        "kde": {},
        "kde weighted": {"weights": draw_weights(m, device)},
        "kde silverman": {"bandwidth": "silverman"},
        "kde scott": {"bandwidth": "scott"},
        "kde bandwidth 0.1": {"bandwidth": 0.1},
    }
    if m <= 1024:
        options["kde median"] = {"bandwidth": "median"}
    return options


def objectives(m: int, device: torch.device) -> dict[str, Callable[[eqrm.Level], Objective]]:
    """Every estimator whose quantile a training step may differentiate, by name."""
    weights = draw_weights(m, device)

    def kde(options: dict[str, object]) -> Callable[[eqrm.Level], Objective]:
        return lambda level: lambda r: eqrm.KDE(r, **options).quantile(level)  # type: ignore[arg-type]

    return {
        **{name: kde(options) for name, options in kernel_estimates(m, device).items()},
        "kde superquantile": lambda level: lambda r: eqrm.KDE(r).superquantile(level),
        "gaussian": lambda level: lambda r: eqrm.Gaussian(r).quantile(level),
        "gaussian weighted": lambda level: (
            lambda r: eqrm.Gaussian(r, weights=weights).quantile(level)
        ),
        "lognormal": lambda level: lambda r: eqrm.distributions.LogNormal(r).quantile(level),
        "empirical": lambda level: lambda r: eqrm.Empirical(r).quantile(level),
        "empirical superquantile": lambda level: lambda r: eqrm.Empirical(r).superquantile(level),
    }


def in_a_gap(name: str, risks: Tensor, level: eqrm.Level, value: Tensor) -> bool:
    """Whether ``value`` solves the equation in a gap between risks, where no digits of it count.

    The same rule as against 50-digit arithmetic: f(q)·(max R − min R) < 1e-3·min(α, 1−α), and
    the tail probability at ``value`` is right.
    """
    options = kernel_estimates(len(risks), torch.device("cpu")).get(name)
    if options is None or level.alpha == 1.0:
        return False
    wide = risks.detach().cpu().double()
    estimate = eqrm.KDE(wide, **options)  # type: ignore[arg-type]
    at = value.detach().cpu().double()
    flat = float(estimate.log_prob(at).exp() * (wide.max() - wide.min()))
    right = abs(float(estimate.sf(at)) / level.tail - 1.0) <= TOLERANCE
    return right and flat < 1e-3 * min(level.alpha, level.tail)


def value_and_gradient(objective: Objective, risks: Tensor) -> tuple[Tensor, Tensor]:
    """The quantile and its gradient in the risks."""
    leaf = risks.detach().clone().requires_grad_()
    value = objective(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def difference(
    found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], risks: Tensor
) -> float:
    """The larger of the relative errors of value and gradient; infinite where one is NaN."""
    value, gradient = (x.detach().cpu().double() for x in found)
    true_value, true_gradient = (x.detach().cpu().double() for x in expected)
    scale = max(float(true_value.abs()), float(risks.max() - risks.min())) or 1.0
    value_error = float((value - true_value).abs()) / scale
    gradient_error = float((gradient - true_gradient).abs().max() / true_gradient.abs().max())
    error = max(value_error, gradient_error)
    return math.inf if math.isnan(error) or math.isnan(value_error + gradient_error) else error


@contextmanager
def forbidden_synchronisation() -> Iterator[None]:
    """Every operation that makes the host wait for the device is an error inside."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def domain_batch(m: int, device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets and domains of a batch in which some of the ``m`` domains are absent."""
    generator = torch.Generator().manual_seed(seed)
    n = max(64, 4 * m)
    x = torch.randn(n, 8, generator=generator)
    domains = torch.randint(0, m, (n,), generator=generator)
    y = x.sum(-1) + torch.randn(n, generator=generator) * (1.0 + domains / m)
    return x.to(device), y.to(device), domains.to(device)


def linear_step(
    weight: Tensor, batch: tuple[Tensor, Tensor, Tensor], m: int, level: eqrm.Level
) -> Tensor:
    """Losses of a linear model, one risk per domain, the quantile of the risks."""
    x, y, domains = batch
    losses = (x @ weight - y) ** 2
    risks = eqrm.domain_risks(losses, domains, num_domains=m)
    return eqrm.KDE(risks.values, weights=risks.weights).quantile(level)


def check_no_synchronisation(device: torch.device, counts: list[int]) -> Iterator[Outcome]:
    """Forward and backward of every estimator while synchronisation is an error."""
    for name in objectives(2, device):
        failures: list[str] = []
        cases = 0
        for m in counts:
            available = objectives(m, device)
            if name not in available:
                continue
            for text in LEVELS:
                objective = available[name](eqrm.Level.parse(text))
                risks = draw("lognormal", m, device)
                cases += 1
                failures += _failure(f"m = {m}, {text}", value_and_gradient, objective, risks)
        note = failures[0] if failures else ""
        yield Outcome(f"no synchronisation: {name}", not failures, cases, math.nan, note)
    yield _domain_risks_without_synchronisation(device, counts)


def _domain_risks_without_synchronisation(device: torch.device, counts: list[int]) -> Outcome:
    failures: list[str] = []
    for m in counts:
        batch = domain_batch(m, device)
        weight = torch.zeros(8, device=device, requires_grad=True)
        level = eqrm.Level(0.75)
        failures += _failure(f"m = {m}", _differentiated_step, weight, batch, m, level)
    note = failures[0] if failures else ""
    name = "no synchronisation: losses -> domain_risks(num_domains) -> kde"
    return Outcome(name, not failures, len(counts), math.nan, note)


def _differentiated_step(
    weight: Tensor, batch: tuple[Tensor, Tensor, Tensor], m: int, level: eqrm.Level
) -> None:
    linear_step(weight, batch, m, level).backward()


def _failure(case: str, action: Callable[..., object], *arguments: object) -> list[str]:
    """Run once freely, since first uses load kernels, then once with waiting forbidden."""
    action(*arguments)
    torch.cuda.synchronize()
    try:
        with forbidden_synchronisation():
            action(*arguments)
    except RuntimeError as error:
        return [f"{case}: {str(error).splitlines()[0]}"]
    return []


class CapturedQuantile:
    """Forward and backward of an objective captured once in a CUDA graph, then replayed."""

    def __init__(self, objective: Objective, example: Tensor) -> None:
        self.risks = example.detach().clone().requires_grad_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.risks.grad = None
                objective(self.risks).backward()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.risks.grad = None
        with torch.cuda.graph(self.graph):
            self.value = objective(self.risks)
            self.value.backward()

    def __call__(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        """Value and gradient for new risks; the returned tensors are overwritten next time."""
        with torch.no_grad():
            self.risks.copy_(risks)
        self.graph.replay()
        if self.risks.grad is None:
            raise RuntimeError("the captured backward pass left no gradient")
        return self.value.detach(), self.risks.grad


def check_graphs(device: torch.device, counts: list[int]) -> Iterator[Outcome]:
    """Replay with new risks of every law gives the numbers of eager mode."""
    for name in (*kernel_estimates(2, device), "gaussian", "empirical"):
        worst, cases, note = 0.0, 0, ""
        for m in counts:
            if name not in objectives(m, device):
                continue
            for text in LEVELS:
                objective = objectives(m, device)[name](eqrm.Level.parse(text))
                try:
                    captured = CapturedQuantile(objective, draw("lognormal", m, device, seed=9))
                except RuntimeError as error:
                    worst, note = math.inf, f"m = {m}, {text}: {str(error).splitlines()[0]}"
                    torch.cuda.synchronize()
                    break
                for law in LAWS:
                    risks = draw(law, m, device, seed=1)
                    error_here = difference(
                        captured(risks), value_and_gradient(objective, risks), risks
                    )
                    cases += 1
                    if error_here > worst:
                        worst, note = error_here, f"worst: {law}, m = {m}, {text}"
        yield Outcome(f"CUDA graph replay = eager: {name}", worst <= TOLERANCE, cases, worst, note)
    yield _captured_training_step(device)


def _captured_training_step(device: torch.device, m: int = 256, steps: int = 20) -> Outcome:
    """A whole SGD step on domain risks, replayed on new batches, against the same in eager mode."""
    level = eqrm.Level(0.9)
    static = tuple(t.clone() for t in domain_batch(m, device, seed=99))
    weight = torch.zeros(8, device=device, requires_grad=True)
    eager = torch.zeros(8, device=device, requires_grad=True)

    def step(parameter: Tensor, batch: tuple[Tensor, Tensor, Tensor]) -> None:
        (gradient,) = torch.autograd.grad(linear_step(parameter, batch, m, level), parameter)
        with torch.no_grad():
            parameter.sub_(gradient, alpha=0.01)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(weight, static)  # type: ignore[arg-type]
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step(weight, static)  # type: ignore[arg-type]
    except RuntimeError as error:
        torch.cuda.synchronize()
        note = str(error).splitlines()[0]
        return Outcome("CUDA graph of a training step", False, 0, math.inf, note)
    with torch.no_grad():
        weight.zero_()
    for seed in range(steps):
        batch = domain_batch(m, device, seed)
        for target, source in zip(static, batch, strict=True):
            target.copy_(source)
        graph.replay()
        step(eager, batch)
    worst = float((weight - eager).detach().abs().max() / eager.detach().abs().max())
    return Outcome(
        "CUDA graph of a training step = eager after 20 batches",
        worst <= 1e-5,
        steps,
        worst,
        "scatter_add sums in varying order on CUDA, so the bound is 1e-5",
    )


def check_compile(device: torch.device, counts: list[int]) -> Iterator[Outcome]:
    """torch.compile(fullgraph=True) of forward, with backward, gives the numbers of eager mode."""
    kernels = ("kde", "kde weighted", "kde silverman", "kde bandwidth 0.1")
    for name in (*kernels, "gaussian", "lognormal", "empirical"):
        worst, cases, note = 0.0, 0, ""
        for m in counts:
            for text in ("0.5", "0.99", "1-e^-1000"):
                objective = objectives(m, device)[name](eqrm.Level.parse(text))
                risks = draw("lognormal", m, device, seed=1)
                torch.compiler.reset()
                try:
                    compiled = torch.compile(objective, fullgraph=True, dynamic=False)
                    found = value_and_gradient(compiled, risks)
                except Exception as error:  # noqa: BLE001 - dynamo raises many kinds
                    worst = math.inf
                    note = f"m = {m}, {text}: {type(error).__name__}: {_first_line(error)}"
                    break
                error_here = difference(found, value_and_gradient(objective, risks), risks)
                cases += 1
                if error_here > worst:
                    worst, note = error_here, f"worst: m = {m}, {text}"
        title = f"torch.compile(fullgraph=True) = eager: {name}"
        yield Outcome(title, worst <= TOLERANCE, cases, worst, note)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def check_agreement(device: torch.device, counts: list[int]) -> Iterator[Outcome]:
    """Value and gradient in float32 against the CPU, every estimator, law, size and level."""
    cpu = torch.device("cpu")
    for name in objectives(2, device):
        worst, cases, gaps, note = 0.0, 0, 0, ""
        for m in counts:
            if name not in objectives(m, device):
                continue
            for law in LAWS:
                if name == "kde median" and law == "nearly-equal":
                    continue  # in float32 all distances are ties, and which pair counts is open
                risks = draw(law, m, device)
                for text in LEVELS:
                    level = eqrm.Level.parse(text)
                    here = value_and_gradient(objectives(m, device)[name](level), risks)
                    there = value_and_gradient(objectives(m, cpu)[name](level), risks.cpu())
                    error_here = difference(here, there, risks)
                    cases += 1
                    if error_here > TOLERANCE and in_a_gap(name, risks, level, here[0]):
                        gaps += 1
                        continue
                    if error_here > worst:
                        worst, note = error_here, f"worst: {law}, m = {m}, {text}"
        if gaps:
            note += f"; {gaps} in gaps between risks, judged by their residual"
        yield Outcome(f"agrees with the CPU: {name}", worst <= TOLERANCE, cases, worst, note)
