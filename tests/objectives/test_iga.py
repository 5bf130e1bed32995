from __future__ import annotations

import numpy as np
import pytest
import torch

from eqrm.objectives import IGA, Batch
from eqrm.predictors.small_networks import LinearPredictor
from objectives.training_loop import only_update


def quadratic_world() -> tuple[Batch, LinearPredictor]:
    """Least squares in two parameters: risks with gradients known in closed form."""
    torch.manual_seed(0)
    x = torch.randn(9, 2, dtype=torch.float64)
    y = torch.randn(9, dtype=torch.float64)
    predictor = LinearPredictor(2, 1, bias=False, loss="squared").double()
    return Batch(x, y, torch.tensor([0, 0, 1, 1, 1, 1, 3, 3, 3]), 4), predictor


def risks_and_gradients(batch: Batch, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y, domains = batch.x.numpy(), batch.y.numpy(), batch.domains.numpy()
    residuals = x @ theta - y
    rows = [domains == e for e in np.unique(domains)]
    risks = np.array([(residuals[r] ** 2).mean() for r in rows])
    gradients = np.array([2 * (residuals[r, None] * x[r]).mean(axis=0) for r in rows])
    return risks, gradients


def test_iga_is_mean_risk_plus_the_variance_of_the_gradients() -> None:
    batch, predictor = quadratic_world()
    risks, gradients = risks_and_gradients(batch, predictor.head.weight.detach().numpy()[0])
    variance = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1).mean()
    loss = only_update(IGA(penalty_weight=5.0), batch, predictor).loss.item()
    assert loss == pytest.approx(risks.mean() + 5 * variance, rel=1e-12)
