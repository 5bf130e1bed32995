"""Simulated worlds of many domains, in which the true risk of any domain is known exactly.

A world has training domains with a few examples each, and held-out domains without any: there
the risk of a predictor is computed from the law of the domain, not from examples.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

HELD_OUT = 100_000


class World(Protocol):
    """Training examples (domains, examples, columns), losses, and true risks elsewhere."""

    name: str
    coefficients: tuple[str, ...]
    invariant: tuple[float, ...]
    """1 for coefficients of features that mean the same in all domains, else 0."""

    examples: Tensor

    def losses(self, examples: Tensor, beta: Tensor) -> Tensor:
        """The loss of each example: (..., columns) -> (...)."""
        ...

    def true_risks(self, beta: Tensor) -> Tensor:
        """The exact risk on each held-out domain, (HELD_OUT,)."""
        ...


class LogisticWorld:
    """Two features that mean the same everywhere, and two whose meaning differs by domain.

    A label is ±1, and label × features is N(c_e, I) with c_e = (.3, .3, a_e, a'_e), where a_e and
    a'_e are ``unstable_mean`` + 1 − Exp(1): useful in most domains, and pointing far the wrong
    way in a few. ERM leans on them, since they help on average. The loss is the logistic one; the
    constant predictor has the risk ln 2 everywhere. β·label·features is N(β·c_e, |β|²), so the
    true risk is an integral over one normal variable, taken by Gauss-Hermite quadrature.
    """

    name: str = "logistic"
    coefficients: tuple[str, ...] = ("stable 1", "stable 2", "unstable 1", "unstable 2")
    invariant: tuple[float, ...] = (1.0, 1.0, 0.0, 0.0)
    constant_risk = math.log(2.0)
    stable = (0.3, 0.3)

    def __init__(self, seed: int, domains: int, examples: int, unstable_mean: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.unstable_mean = unstable_mean
        centres = self._centres(domains, generator)
        shape = (domains, examples, len(self.coefficients))
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        self.examples = centres[:, None] + noise
        self.held_out = self._centres(HELD_OUT, generator)
        nodes, weights = np.polynomial.hermite_e.hermegauss(30)
        self._nodes = torch.from_numpy(nodes)
        self._weights = torch.from_numpy(weights / math.sqrt(2.0 * math.pi))

    def _centres(self, number: int, generator: torch.Generator) -> Tensor:
        drawn = torch.empty((number, 2), dtype=torch.float64).exponential_(generator=generator)
        stable = torch.tensor(self.stable, dtype=torch.float64).expand(number, 2)
        return torch.cat([stable, self.unstable_mean + 1.0 - drawn], dim=1)

    def losses(self, examples: Tensor, beta: Tensor) -> Tensor:
        """log(1 + exp(−β·x)), x being label × features."""
        return softplus(-(examples @ beta))

    def true_risks(self, beta: Tensor) -> Tensor:
        """E softplus(−Z), Z normal with mean β·c_e and standard deviation |β|."""
        scores = (self.held_out @ beta)[:, None] + beta.norm() * self._nodes
        return softplus(-scores) @ self._weights


class LinearWorld:
    """The paper's linear regression: the noise of the second feature is lognormal over domains.

    X1 = N1, Y = X1 + N_Y, X2 = Y + N_2 with variances 1, 2 and σ2², log σ2 ~ N(0, ½). The risk
    (1−β1−β2)² + 2(1−β2)² + β2²σ2² has a heavy tail, since σ2² is lognormal with log-variance 2.

    A domain's 200,000 examples are kept as three: the columns of the triangular factor A of
    their second moments, which is drawn directly (Bartlett's decomposition). The mean squared
    loss on the three is that on all 200,000, for every β.
    """

    name: str = "heavy-tailed linear"
    coefficients: tuple[str, ...] = ("x1", "x2")
    invariant: tuple[float, ...] = (1.0, 0.0)

    def __init__(self, seed: int, domains: int, examples: int = 200_000) -> None:
        generator = np.random.default_rng(seed)
        scales = self._scales(domains, generator)
        factor = np.zeros((3, domains, 3))
        for row in range(3):
            factor[row, :, :row] = generator.standard_normal((domains, row))
            factor[row, :, row] = np.sqrt(generator.chisquare(examples - row, domains))
        noise = torch.from_numpy(factor * math.sqrt(3.0 / examples))
        x1 = noise[0]
        y = x1 + math.sqrt(2.0) * noise[1]
        self.examples = torch.stack([x1, y + scales[:, None] * noise[2], y], dim=2)
        self.held_out = self._scales(HELD_OUT, generator) ** 2

    @staticmethod
    def _scales(number: int, generator: np.random.Generator) -> Tensor:
        return torch.from_numpy(generator.lognormal(0.0, math.sqrt(0.5), number))

    def losses(self, examples: Tensor, beta: Tensor) -> Tensor:
        """(y − β·x)²."""
        return (examples[..., 2] - examples[..., :2] @ beta) ** 2

    def true_risks(self, beta: Tensor) -> Tensor:
        """(1−β1−β2)² + 2(1−β2)² + β2²σ2²."""
        first, second = beta[0], beta[1]
        common = (1.0 - first - second) ** 2 + 2.0 * (1.0 - second) ** 2
        return common + second**2 * self.held_out
