"""Where training ends on random quadratic risks: exact EQRM, the published gradient, and ERM.

    python benchmarks/quadratic_worlds.py [--quick] [--json FILE]

A world has m domains with the risks R_e(θ) = c_e + ½(θ−t_e)ᵀA_e(θ−t_e), where θ has 5
parameters, A_e is a random positive definite matrix, t_e normal and c_e uniform. Three ways to
train in it, all judged by the exact α-quantile of the risks they end with:

- ERM: the minimum of the mean risk, in closed form;
- published: Adam on EQRM with the published gradient, options={"gradient": "bisection"};
- exact: the same Adam on EQRM as it is, with the exact gradient.

Both trainings start from ERM's solution and have the same budget. ``make verify`` requires that
exact ends, on average over worlds, at or below both others at every level
(objectives.quadratic-worlds).
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass

import torch
from tables import aligned, machine, quick_and_json, write_json
from torch import Tensor

import eqrm
from eqrm.objectives import EQRM

PARAMETERS = 5
ALPHAS = (0.5, 0.75, 0.9, 0.99)
DOMAINS = (20, 100)
WORLDS = 10
STEPS = 400
LEARNING_RATE = 0.05
TIE = 1e-3
"""Ends that differ by less than this, relatively, count as equal."""


@dataclass(frozen=True)
class Worlds:
    """w worlds of m domains with d parameters: c (w, m), t (w, m, d), A (w, m, d, d)."""

    offsets: Tensor
    centres: Tensor
    curvatures: Tensor

    def risks(self, theta: Tensor) -> Tensor:
        """θ (w, d) to risks (w, m)."""
        away = theta[:, None, :] - self.centres
        return self.offsets + 0.5 * torch.einsum("wmi,wmij,wmj->wm", away, self.curvatures, away)

    def minimum_of_the_mean(self) -> Tensor:
        """ERM's solution (w, d): (Σ A_e) θ = Σ A_e t_e."""
        pull = torch.einsum("wmij,wmj->wi", self.curvatures, self.centres)
        return torch.linalg.solve(self.curvatures.sum(1), pull)


def draw_worlds(domains: int, worlds: int, seed: int = 0) -> Worlds:
    """The same worlds in every run."""
    generator = torch.Generator().manual_seed(1000 * domains + seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    roots = normal(worlds, domains, PARAMETERS, PARAMETERS) / PARAMETERS**0.5
    offsets = torch.rand(worlds, domains, generator=generator, dtype=torch.float64)
    return Worlds(offsets, normal(worlds, domains, PARAMETERS), roots @ roots.mT)


def train(worlds: Worlds, alpha: float, gradient: str, steps: int) -> Tensor:
    """Adam with cosine decay from ERM's solution, all worlds at once; the θ it ends with."""
    objective = EQRM(alpha, options={"gradient": gradient})
    theta = worlds.minimum_of_the_mean().requires_grad_()
    optimizer = torch.optim.Adam([theta], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        # The worlds are rows: each has its own quantile, and its gradient is its own.
        objective.of_risks(worlds.risks(theta)).sum().backward()
        optimizer.step()
        schedule.step()
    return theta.detach()


@dataclass(frozen=True)
class Row:
    """The mean end quantile over worlds for one number of domains and one level."""

    domains: int
    alpha: float
    erm: float
    published: float
    exact: float
    exact_lowest: int
    published_above_erm: int

    @property
    def passed(self) -> bool:
        """Whether exact is at or below both others, up to a tie."""
        return self.exact <= (1.0 + TIE) * min(self.erm, self.published)

    def against(self, other: float) -> str:
        """How far exact ends below another, in per cent."""
        return f"{100.0 * (self.exact / other - 1.0):+.2f}%"


def measure(domains: int, alpha: float, count: int, steps: int) -> Row:
    """Train in ``count`` worlds and judge by the exact quantile."""
    worlds = draw_worlds(domains, count)
    ends = {
        "erm": worlds.minimum_of_the_mean(),
        "published": train(worlds, alpha, "bisection", steps),
        "exact": train(worlds, alpha, "implicit", steps),
    }
    q = {name: eqrm.KDE(worlds.risks(theta)).quantile(alpha) for name, theta in ends.items()}
    lowest = q["exact"] <= (1.0 + TIE) * torch.minimum(q["erm"], q["published"])
    above = q["published"] > (1.0 + TIE) * q["erm"]
    means = {name: float(values.mean()) for name, values in q.items()}
    return Row(
        domains,
        alpha,
        **means,
        exact_lowest=int(lowest.sum()),
        published_above_erm=int(above.sum()),
    )


def print_rows(rows: list[Row], count: int) -> None:
    """The table, a line per number of domains and level."""
    header = ["domains", "alpha", "ERM", "published", "exact", "to ERM", "to published"]
    header += ["exact lowest", "published above ERM", ""]
    cells = [
        [
            f"{row.domains}",
            f"{row.alpha:g}",
            *(f"{value:.4f}" for value in (row.erm, row.published, row.exact)),
            row.against(row.erm),
            row.against(row.published),
            f"{row.exact_lowest}/{count}",
            f"{row.published_above_erm}/{count}",
            "pass" if row.passed else "FAIL",
        ]
        for row in rows
    ]
    print(aligned(header, cells))


def main(arguments: list[str]) -> int:
    """Run all levels and sizes; 1 if exact ends above another anywhere."""
    given = quick_and_json(arguments, __doc__, "quadratic_worlds", "3 worlds, fewer steps")
    count, steps = (3, 300) if given.quick else (WORLDS, STEPS)
    torch.set_num_threads(1)  # the tensors are small
    start = time.perf_counter()
    rows = [measure(m, alpha, count, steps) for m in DOMAINS for alpha in ALPHAS]
    seconds = time.perf_counter() - start
    print(
        f"{count} worlds each, {PARAMETERS} parameters; Adam, {steps} steps, learning rate "
        f"{LEARNING_RATE:g} with cosine decay, from ERM's solution; mean end quantile:"
    )
    print_rows(rows, count)
    passed = all(row.passed for row in rows)
    print(
        f"{'pass' if passed else 'FAIL'}: exact ends at or below ERM and the published gradient "
        f"(ties within {TIE:g}) in {sum(row.passed for row in rows)} of {len(rows)} settings; "
        f"{seconds:.0f} s"
    )
    settings = {"worlds": count, "parameters": PARAMETERS, "steps": steps}
    settings["learning_rate"] = LEARNING_RATE
    found = [{**asdict(row), "passed": row.passed} for row in rows]
    content = {"passed": passed, "settings": settings, "rows": found, "machine": machine()}
    write_json(given.json, {**content, "seconds": seconds})
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
