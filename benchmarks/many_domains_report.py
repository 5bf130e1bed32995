"""What many_domains.py found: results per world, tables and the claims they are checked against."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from tables import markdown
from torch import Tensor
from world_training import Look, true_quantile
from worlds import LinearWorld, LogisticWorld, World

NOISE_AWARE = ("noise-aware memory", "noise-aware, sizes known")


Claim = tuple[str, str, bool]
"""What is claimed, what was measured, and whether it holds."""


@dataclass
class Learned:
    """The coefficients and true quantiles of each method, a value per world."""

    betas: dict[str, list[Tensor]] = field(default_factory=dict)
    quantiles: dict[str, list[float]] = field(default_factory=dict)

    def add(self, method: str, world: World, beta: Tensor) -> None:
        """Judge what a method learned in one more world."""
        self.betas.setdefault(method, []).append(beta)
        self.quantiles.setdefault(method, []).append(true_quantile(world, beta))

    def differences(self, method: str, other: str) -> list[float]:
        """Relative differences of the true quantiles, world by world."""
        pairs = zip(self.quantiles[method], self.quantiles[other], strict=True)
        return [one / two - 1.0 for one, two in pairs]


@dataclass
class WholeDomains:
    """Part A in one kind of world."""

    name: str
    coefficients: Sequence[str]
    learned: Learned = field(default_factory=Learned)
    looks: list[Look] = field(default_factory=list)
    gradient_errors: list[float] = field(default_factory=list)
    staleness: str = ""


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error over worlds."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.fmean(values), error


def plus_minus(values: Sequence[float], digits: int, scale: float = 1.0, sign: str = "") -> str:
    """Mean ± standard error as text."""
    mean, error = mean_and_error([scale * value for value in values])
    rounded = round(mean, digits) + 0.0  # no −0
    return f"{rounded:{sign}.{digits}f} ± {error:.{digits}f}"


def titled(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table under its title."""
    return f"{title}\n\n{markdown(header, rows)}"


def tracking_table(found: Sequence[WholeDomains]) -> str:
    """How well memory and batch know the quantile while training."""
    rows = []
    for kind in found:
        memory = [100.0 * look.memory for look in kind.looks]
        batches = 100.0 * torch.cat([look.batches for look in kind.looks])
        rows.append(
            [
                kind.name,
                f"{max(map(abs, memory)):.2f}",
                f"{math.sqrt(statistics.fmean(e * e for e in memory)):.2f}",
                f"{float(batches.square().mean().sqrt()):.1f}",
                f"{float(batches.mean()):+.1f}",
                f"{max(kind.gradient_errors):.1e}",
            ]
        )
    header = ["world", "memory, worst", "memory, RMS", "batch, RMS", "batch, bias"]
    return titled(
        "Whole domains: errors of the .9-quantile in % of that over all domains, at the same "
        "parameters, while training, after the first epoch; and the error of the gradient "
        "averaged over an epoch at ERM's optimum",
        [*header, "gradient, worst"],
        rows,
    )


def whole_table(kind: WholeDomains) -> str:
    """What was learned from whole domains."""
    rows = []
    for method, quantiles in kind.learned.quantiles.items():
        mean = torch.stack(kind.learned.betas[method]).mean(dim=0)
        rows.append(
            [
                method,
                plus_minus(quantiles, 4),
                plus_minus(kind.learned.differences(method, "full batch"), 2, 100.0, "+"),
                *(f"{value:.3f}" for value in mean),
            ]
        )
    header = ["trained with", "true .9-quantile", "against full batch, %", *kind.coefficients]
    return titled(f"Whole domains, {kind.name} world: unseen domains", header, rows)


def few_table(learned: Learned) -> str:
    """What was learned from few examples per visit."""
    rows = []
    for method, quantiles in learned.quantiles.items():
        betas = torch.stack(learned.betas[method])
        margins = [LogisticWorld.constant_risk - q for q in quantiles]
        rows.append(
            [
                method,
                plus_minus(quantiles, 4),
                plus_minus(margins, 4, sign="+"),
                "" if method in ("constant", "ERM") else f"{gap_closed(learned, method):.0%}",
                f"{float(betas[:, :2].mean()):.3f}",
                f"{float(betas[:, 2:].mean()):.3f}",
                f"{float(betas.norm(dim=1).mean()):.3f}",
            ]
        )
    header = ["trained with", "true .9-quantile", "below ln 2", "gap closed"]
    return titled(
        "A few examples per visit, logistic world: unseen domains",
        [*header, "stable", "unstable", "|β|"],
        rows,
    )


def gap_closed(learned: Learned, method: str) -> float:
    """The share of the way from the plain memory (0) to the full batch (1)."""
    plain, full, own = (
        statistics.fmean(learned.quantiles[name]) for name in ("plain memory", "full batch", method)
    )
    return (plain - own) / (plain - full)


def whole_verdicts(kind: WholeDomains) -> list[Claim]:
    """The claims about whole domains in one kind of world."""
    worst = max(abs(look.memory) for look in kind.looks)
    gradient = max(kind.gradient_errors)
    lower, error = mean_and_error(kind.learned.differences("memory", "batch only"))
    to_full = max(map(abs, kind.learned.differences("memory", "full batch")))
    claims = [
        ("memory within 2% while training", f"worst {100 * worst:.2f}%", worst < 0.02),
        (
            "gradient over an epoch equals the full one to 1e-6",
            f"worst {gradient:.1e}",
            gradient <= 1e-6,
        ),
        (
            "lower true .9-quantile with the memory than without, by 2 standard errors",
            f"{100 * lower:+.2f}% ± {100 * error:.2f}",
            lower + 2.0 * error < 0.0,
        ),
        ("within .5% of full-batch training", f"worst {100 * to_full:.2f}%", to_full < 5e-3),
    ]
    if kind.name == LinearWorld.name:
        batches = torch.cat([look.batches for look in kind.looks])
        rms = float(batches.square().mean().sqrt())
        claims.append(("a batch alone is off by over 10%", f"RMS {rms:.0%}", rms > 0.1))
    return [(f"{kind.name}: {claim}", measured, holds) for claim, measured, holds in claims]


def few_verdicts(learned: Learned) -> list[Claim]:
    """The claims about few examples per visit."""
    claims = []
    for method in NOISE_AWARE:
        closed = gap_closed(learned, method)
        margins = [LogisticWorld.constant_risk - q for q in learned.quantiles[method]]
        margin, error = mean_and_error(margins)
        claims += [
            (
                f"few examples: {method} closes half of the gap between plain and full batch",
                f"{closed:.0%}",
                closed >= 0.5,
            ),
            (
                f"few examples: {method} learns more than the constant, by 10 standard errors",
                f"{margin:.4f} ± {error:.4f} below ln 2",
                margin > 10.0 * error,
            ),
        ]
    return claims
