"""Linear EQRM from moments against gradient training on the raw rows, in the same run.

    python benchmarks/linear_speed.py [--quick]

The paper's linear world, X1 → Y → X2 with a noise in X2 that differs by domain, 100 domains of
20,000 rows. Gradient training is the paper's: 1000 full-batch steps of Adam, here in float32 on
rows sorted by domain, with the exact quantile; 200 of the steps are run and the time is multiplied
by 5. LinearQRM reads the rows once into moments and solves from those. Also: 14 levels from the
moments of 1000 domains, and one level of 1000 domains with 50 features.
"""

from __future__ import annotations

import sys

import torch
from tables import aligned, begun
from timing import timed
from torch import Tensor

import eqrm
from eqrm import LinearQRM
from eqrm.linear import DomainMoments

ALPHA = 0.9
STEPS, STEPS_RUN = 1000, 200
LEVELS = [0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999]
LEVELS += [f"1-e^-{tail}" for tail in ("50", "100", "1000", "1e6", "1e30")]
LEAST_RATIO, LONGEST_PATH, LONGEST_WIDE = 100.0, 1.0, 5.0


def draw_rows(domains: int, rows: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """X (domains·rows, 2), y and the domain of each row, sorted by domain; float32."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    noise = (0.5**0.5 * normal(domains, 1)).exp()
    cause = normal(domains, rows)
    target = cause + 2.0**0.5 * normal(domains, rows)
    effect = target + noise * normal(domains, rows)
    X = torch.stack([cause.reshape(-1), effect.reshape(-1)], dim=1)
    return X, target.reshape(-1), torch.arange(domains).repeat_interleave(rows)


def population(domains: int, seed: int = 0) -> DomainMoments:
    """Exact moments of the same world."""
    generator = torch.Generator().manual_seed(seed)
    squares = (2.0 * 0.5**0.5 * torch.randn(domains, generator=generator).double()).exp()
    covariance = torch.tensor([[1.0, 1, 1], [1, 3, 3], [1, 3, 3]], dtype=torch.float64)
    covariance = covariance.repeat(domains, 1, 1)
    covariance[:, 1, 1] += squares
    return DomainMoments.population(torch.zeros(domains, 3, dtype=torch.float64), covariance)


def wide_world(domains: int, features: int, seed: int = 0) -> DomainMoments:
    """Domains that differ in covariances, coefficients, means and noise."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    roots = normal(domains, features, features + 2) / features**0.5
    inputs = 0.3 * torch.eye(features, dtype=torch.float64) + roots @ roots.mT
    beta = normal(features) + 0.3 * normal(domains, features)
    covariance = torch.zeros(domains, features + 1, features + 1, dtype=torch.float64)
    covariance[:, :-1, :-1] = inputs
    covariance[:, :-1, -1] = covariance[:, -1, :-1] = torch.einsum("eij,ej->ei", inputs, beta)
    noise = 0.2 + 3.0 * torch.rand(domains, generator=generator, dtype=torch.float64)
    covariance[:, -1, -1] = torch.einsum("ei,eij,ej->e", beta, inputs, beta) + noise
    return DomainMoments.population(normal(domains, features + 1), covariance)


def gradient_training(X: Tensor, y: Tensor, domains: int, steps: int) -> Tensor:
    """Coefficients and intercept after full-batch Adam on the rows."""
    layer = torch.nn.Linear(X.shape[1], 1)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    objective = eqrm.EQRM(ALPHA)
    for _ in range(steps):
        optimizer.zero_grad()
        losses = (layer(X).squeeze(1) - y) ** 2
        objective.of_risks(losses.view(domains, -1).mean(dim=1)).backward()
        optimizer.step()
    return torch.cat([layer.weight.detach().reshape(-1), layer.bias.detach()])


def against_training(domains: int, rows: int, steps: int) -> dict[str, float]:
    """Both ways to the same predictor."""
    X, y, groups = draw_rows(domains, rows)
    moments, reading, _ = timed(lambda: DomainMoments.from_arrays(X, y, groups))
    model, solving, _ = timed(lambda: LinearQRM(ALPHA).fit(moments))
    end, training, _ = timed(lambda: gradient_training(X, y, domains, steps))
    trained = moments.risks(end[:-1], end[-1])
    training *= STEPS / steps
    return {
        "training": training,
        "reading": reading,
        "solving": solving,
        "ratio": training / (reading + solving),
        "ratio_from_moments": training / solving,
        "value": model.value_,
        "value_of_training": float(eqrm.KDE(trained).quantile(ALPHA)),
    }


def main(arguments: list[str]) -> int:
    """Measure; 1 if a promise is broken."""
    quick = begun(arguments, __doc__, "50 steps of training instead of 200")
    LinearQRM().path(LEVELS, population(10))  # whatever is loaded on first use
    row = against_training(100, 20_000, 50 if quick else STEPS_RUN)
    header = ["100 domains x 20,000 rows", "seconds", "KDE .9-quantile"]
    print(
        aligned(
            header,
            [
                [
                    "gradient training, 1000 steps",
                    f"{row['training']:.1f}",
                    f"{row['value_of_training']:.8f}",
                ],
                ["moments of the rows", f"{row['reading']:.3f}", ""],
                ["LinearQRM from moments", f"{row['solving']:.4f}", f"{row['value']:.8f}"],
            ],
        )
    )
    print(
        f"ratio {row['ratio']:.0f} including the reading of the rows, "
        f"{row['ratio_from_moments']:.0f} from existing moments"
    )
    moments, wide_moments = population(1000), wide_world(1000, 50)
    frontier, path, _ = timed(lambda: LinearQRM().path(LEVELS, moments))
    wide, seconds, _ = timed(lambda: LinearQRM(ALPHA).fit(wide_moments))
    passed = bool(
        row["ratio"] >= LEAST_RATIO
        and path <= LONGEST_PATH
        and seconds <= LONGEST_WIDE
        and frontier.converged.all()
        and wide.converged_
    )
    print(
        f"{len(LEVELS)} levels from the moments of 1000 domains {path:.2f} s; 1000 domains x 50 "
        f"features, {wide.n_iter_} steps, {seconds:.2f} s; {row['ratio']:.0f} times as fast as "
        f"training on rows: {'pass' if passed else 'FAIL'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
