"""The kernels of GPUs in Triton's interpreter, against the same in tensors on the CPU.

Run as a program, because the interpreter is chosen before triton is imported:
``python -m oracle.interpreted_kernels [--all]`` with ``TRITON_INTERPRET=1`` prints one line of JSON
per case, with the larger of the errors of value and gradient. Rows that several programs share
cannot be interpreted, since programs run one after the other there: those are checked on a device
(benchmarks/cuda_quantile.py).
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

import eqrm
from eqrm.distributions.kde.triton_quantile import quantile_rows
from eqrm.objectives import ERM, GroupDRO, RiskMemory, VREx
from eqrm.objectives.risk_objective import OnTotals, RiskObjective

LEVELS = ("0.1", "0.5", "0.9", "1-e^-1000", "1-e^-1e30")
RULE = eqrm.KDE([0.0, 1.0]).rule


def risks_of(law: str, m: int) -> Tensor:
    """Risks of a law, float64."""
    drawn = torch.randn(m, dtype=torch.float64, generator=torch.Generator().manual_seed(m))
    laws = {"normal": drawn, "ties": (2.0 * drawn).round(), "spread 1e-9": 0.7 + 1e-9 * drawn}
    return {**laws, "equal": torch.full_like(drawn, 0.7)}[law]


def error_of(found: tuple[Tensor, Tensor], risks: Tensor, true: Tensor) -> float:
    """The larger of the relative errors of a value and of its gradient."""
    (gradient,) = torch.autograd.grad(true.sum(), risks)
    true = true.detach().double()
    value_error = ((found[0].double() - true).abs() / true.abs().clamp(min=1.0)).max()
    scale = float(gradient.abs().max().clamp(min=1.0))
    return max(float(value_error), float((found[1] - gradient).abs().max()) / scale)


def quantiles(all_cases: bool) -> Iterator[tuple[str, float]]:
    """Quantiles by rule, with and without weights, at every depth."""
    sizes = (1, 2, 7, 40) if all_cases else (7,)
    laws = ("normal", "ties", "spread 1e-9", "equal") if all_cases else ("normal", "spread 1e-9")
    for m, law, text in itertools.product(sizes, laws, LEVELS):
        for weighted, given in itertools.product((False, True), (False, True)):
            usual = law == "normal" and not (weighted or given)
            if not (all_cases or usual or (text == "0.9" and not (weighted and given))):
                continue
            risks = risks_of(law, m).requires_grad_()
            weights = torch.linspace(0.0, 2.0, m, dtype=torch.float64) + (m == 1)
            h = torch.full((1,), 0.3, dtype=torch.float64) if given else None
            options = {"weights": weights} if weighted else {}
            level = eqrm.Level.parse(text)
            true = eqrm.KDE(risks, 0.3 if given else RULE, **options).quantile(level)
            own = weights if weighted else None
            found = quantile_rows(risks, own, h, RULE.constant, level, True)
            name = f"{law}, m = {m}, {text}, weighted {weighted}, bandwidth given {given}"
            yield name, error_of(found[:2], risks, true)


def kinds_and_rows(all_cases: bool) -> Iterator[tuple[str, float]]:
    """Rows in a batch, a longer row, other dtypes, and risks that are not finite."""
    risks = risks_of("normal", 300).requires_grad_()
    found = quantile_rows(risks, None, None, RULE.constant, eqrm.Level(0.9), True)
    yield "300 risks", error_of(found[:2], risks, eqrm.KDE(risks).quantile(0.9))
    rows = torch.stack([risks_of("normal", 7), 3.0 * risks_of("ties", 7)]).requires_grad_()
    true = eqrm.KDE(rows).quantile(0.9)
    level = eqrm.Level(0.9)
    found = quantile_rows(rows, None, None, RULE.constant, level, True)
    yield "two rows", error_of(found[:2], rows, true)
    for dtype, most in ((torch.float32, 1e-6), (torch.float16, 2e-3)):
        risks = risks_of("normal", 7).to(dtype).requires_grad_()
        found = quantile_rows(risks, None, None, RULE.constant, level, True)
        error = error_of(found[:2], risks, eqrm.KDE(risks).quantile(level))
        yield f"{dtype}", 0.0 if error <= most and found[0].dtype == dtype else error
    # The kernel tries all its steps for each of these, which takes seconds here.
    for bad in (math.nan, math.inf, -math.inf) if all_cases else ():
        risks = risks_of("normal", 7)
        risks[3] = bad
        found = quantile_rows(risks, None, None, RULE.constant, level, True)
        yield f"a risk of {bad}", 0.0 if bool(found[0].isnan()) else 1.0


def batches(all_cases: bool) -> Iterator[tuple[str, float]]:
    """Losses to objectives, with domains that are absent."""
    for domains in (3, 20):
        generator = torch.Generator().manual_seed(domains)
        losses = torch.rand(50, generator=generator).requires_grad_()
        ids = torch.randint(0, domains - 1, (50,), generator=generator)
        most = 1 if domains == 20 and not all_cases else None
        kinds = objectives(domains, all_cases)[:most], objectives(domains, all_cases)[:most]
        for objective, twin in zip(*kinds, strict=True):
            yield from same_as_in_tensors(objective, twin, losses, ids, domains)
    ids[7] = 20
    for objective in objectives(20, all_cases):
        if isinstance(objective, eqrm.EQRM) and not all_cases:
            continue  # a risk that is none, as above
        yield (
            f"an id out of range: {objective!r}",
            1.0 - float(of_kernel(objective, losses, ids, 20).isnan()),
        )


def objectives(domains: int, all_cases: bool) -> list[RiskObjective]:
    """One of each kind that has a kernel, and with ``all_cases`` in several settings."""
    ageing = RiskMemory(domains, averaging=0.3, half_life=2.0)
    kinds: list[RiskObjective] = [
        ERM(),
        eqrm.EQRM(0.9),
        eqrm.EQRM(0.75, memory=ageing),
        VREx(penalty_weight=0.3),
        GroupDRO(step_size=0.7),
        eqrm.Superquantile(0.55),
    ]
    if all_cases:
        kinds += [
            eqrm.EQRM("1-e^-1000"),
            eqrm.EQRM(0.9, memory=RiskMemory(domains)),
            GroupDRO().eval(),
            eqrm.Superquantile(0.0),
            eqrm.Superquantile(1 - 1e-9),
        ]
    return kinds


def of_kernel(objective: RiskObjective, losses: Tensor, ids: Tensor, domains: int) -> Tensor:
    """The objective of a batch, by its kernel."""
    kernel = objective.kernel(domains)
    assert kernel is not None
    value: Tensor = OnTotals.apply(losses, ids, domains, kernel)  # type: ignore[no-untyped-call]
    return value


def same_as_in_tensors(
    objective: RiskObjective, twin: RiskObjective, losses: Tensor, ids: Tensor, domains: int
) -> Iterator[tuple[str, float]]:
    """Values, slopes, second derivatives and states, over three batches with absent domains."""
    name = f"{objective!r}, {domains} domains"
    for number in range(3):
        batch = slice(10 * number, 10 * number + 20)
        value = of_kernel(objective, losses[batch], ids[batch], domains)
        true = twin(losses[batch], ids[batch], domains)
        if number < 2:
            (slopes,) = torch.autograd.grad(2.0 * value, losses)
            error = error_of((2.0 * value.detach(), slopes), losses, 2.0 * true)
            yield f"{name}, batch {number}", 0.0 if error < 1e-6 else error
            continue
        found, sought = _twice(value.square(), losses), _twice(true.square(), losses)
        difference = (found - sought).abs().max() / sought.abs().max()
        yield f"{name}, second derivatives", 0.0 if difference < 1e-5 else float(difference)
    pairs = zip(objective.state_dict().values(), twin.state_dict().values(), strict=True)
    same = all(torch.allclose(mine.double(), its.double(), atol=1e-14) for mine, its in pairs)
    yield f"{name}, state", 0.0 if same else 1.0


def _twice(value: Tensor, losses: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(value, losses, create_graph=True)
    return torch.autograd.grad(gradient.square().sum(), losses)[0]


if __name__ == "__main__":
    every = "--all" in sys.argv
    cases = itertools.chain(quantiles(every), kinds_and_rows(every), batches(every))
    for case, wrong in cases:
        print(json.dumps({"case": case, "error": wrong}))
