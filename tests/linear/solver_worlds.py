"""Worlds for tests of the linear solver, with moments that are exact."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from eqrm.linear import DomainMoments


def paper_world(domains: int = 200, seed: int = 0) -> tuple[Tensor, DomainMoments]:
    """σ2² of each domain (lognormal) and its moments: X1 → Y → X2, variances 1, 2 and σ2²."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(domains, generator=generator, dtype=torch.float64)
    squares = torch.exp(2.0 * 0.5**0.5 * normal)
    covariance = torch.tensor([[1.0, 1, 1], [1, 3, 3], [1, 3, 3]], dtype=torch.float64)
    covariance = covariance.repeat(domains, 1, 1)
    covariance[:, 1, 1] += squares
    return squares, DomainMoments.population(torch.zeros(domains, 3), covariance)


def random_world(domains: int, features: int, seed: int = 0) -> DomainMoments:
    """Domains that differ in everything: means, covariances, coefficients and noise."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    roots = normal(domains, features, features + 2) / features**0.5
    inputs = 0.3 * torch.eye(features, dtype=torch.float64) + roots @ roots.mT
    beta = normal(features) + 0.3 * normal(domains, features)
    noise = 0.2 + 3.0 * torch.rand(domains, generator=generator, dtype=torch.float64)
    covariance = torch.zeros(domains, features + 1, features + 1, dtype=torch.float64)
    covariance[:, :-1, :-1] = inputs
    covariance[:, :-1, -1] = covariance[:, -1, :-1] = torch.einsum("eij,ej->ei", inputs, beta)
    covariance[:, -1, -1] = torch.einsum("ei,eij,ej->e", beta, inputs, beta) + noise
    return DomainMoments.population(normal(domains, features + 1), covariance)


def lowest_by_lbfgs(objective: object, moments: DomainMoments, start: np.ndarray) -> float:
    """What scipy's L-BFGS reaches on objective(risks), differentiated by torch."""

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        value = objective(moments.risks(theta[:-1], theta[-1]))  # type: ignore[operator]
        (gradient,) = torch.autograd.grad(value, theta)
        return value.item(), gradient.numpy()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-10}
    return float(
        minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).fun
    )
