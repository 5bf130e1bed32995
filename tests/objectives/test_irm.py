from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from eqrm.objectives import IRM, Batch
from eqrm.predictors import Predictor
from eqrm.predictors.small_networks import LinearPredictor
from objectives.finite_differences import finite_difference_gradient
from objectives.toy_worlds import predictor_for, toy_batch
from objectives.training_loop import gradient_of, only_update


def identity(loss: str) -> Predictor:
    """Outputs are the inputs, so a penalty can be computed by hand from x and y."""
    return Predictor(nn.Identity(), nn.Identity(), loss)


def regression_batch() -> Batch:
    torch.manual_seed(0)
    outputs, y = torch.randn(2, 7, dtype=torch.float64)
    return Batch(outputs, y, torch.tensor([0, 0, 0, 2, 2, 2, 2]), 3)


def squared_loss_gradients(batch: Batch) -> dict[int, float]:
    """d/dw mean (w f − y)² at w = 1 is 2·mean (f − y) f."""
    slopes = 2 * (batch.x - batch.y) * batch.x
    return {e: float(slopes[batch.domains == e].mean()) for e in (0, 2)}


def test_the_objective_is_mean_risk_plus_weighted_penalty() -> None:
    batch = regression_batch()
    predictor = LinearPredictor(1, 1, loss="squared").double()
    batch = Batch(batch.x[:, None], batch.y, batch.domains, 3)
    f = predictor(batch.x).detach()[:, 0]
    by_hand = Batch(f, batch.y, batch.domains, 3)
    risks = [float((f - batch.y)[batch.domains == e].square().mean()) for e in (0, 2)]
    g = squared_loss_gradients(by_hand)
    expected = sum(risks) / 2 + 7.0 * (g[0] ** 2 + g[2] ** 2) / 2
    loss = only_update(IRM(penalty_weight=7.0), batch, predictor).loss.item()
    assert loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("unbiased", [False, True])
def test_the_gradient_differentiates_the_penalty_too(unbiased: bool) -> None:
    batch = toy_batch(dtype=torch.float64)
    predictor = predictor_for("classes", torch.float64)
    objective = IRM(penalty_weight=3.0, unbiased=unbiased)
    update = only_update(objective, batch, predictor)
    expected = finite_difference_gradient(
        lambda: only_update(objective, batch, predictor).loss, update.parameters
    )
    assert torch.allclose(gradient_of(update), expected, rtol=1e-5, atol=1e-8)


def test_two_halves_estimate_the_square_without_bias() -> None:
    """Over all pairs of examples: the product averages to ḡ², the square to ḡ² + variance/2."""
    f = torch.tensor([0.5, -1.0, 2.0, 1.5, 0.1], dtype=torch.float64)
    y = torch.tensor([1.0, 0.3, -0.7, 1.0, 2.0], dtype=torch.float64)
    slopes = 2 * (f - y) * f
    products, squares = [], []
    for pair in itertools.product(range(5), repeat=2):
        rows = list(pair)
        batch = Batch(f[rows], y[rows], torch.zeros(2, dtype=torch.long), 1)
        products.append(IRM(unbiased=True).penalty(batch.x, batch, identity("squared")).item())
        squares.append(IRM().penalty(batch.x, batch, identity("squared")).item())
    true_square = float(slopes.mean() ** 2)
    variance = float(slopes.var(unbiased=False))
    assert sum(products) / 25 == pytest.approx(true_square, rel=1e-12)
    assert sum(squares) / 25 == pytest.approx(true_square + variance / 2, rel=1e-12)


def test_halves_are_every_other_example_of_a_domain_wherever_it_stands_in_the_batch() -> None:
    batch = regression_batch()
    order = torch.tensor([3, 0, 4, 5, 1, 6, 2])  # domains interleaved, order within them kept
    mixed = Batch(batch.x[order], batch.y[order], batch.domains[order], 3)
    slopes = 2 * (batch.x - batch.y) * batch.x
    halves = [
        slopes[rows][::2].mean() * slopes[rows][1::2].mean()
        for rows in (batch.domains == 0, batch.domains == 2)
    ]
    expected = float(sum(halves)) / 2
    penalty = IRM(unbiased=True).penalty(mixed.x, mixed, identity("squared"))
    assert penalty.item() == pytest.approx(expected, rel=1e-12)


def test_a_single_example_has_no_second_half_and_no_penalty() -> None:
    batch = Batch(torch.tensor([2.0]), torch.tensor([0.0]), torch.tensor([0]), 1)
    assert IRM(unbiased=True).penalty(batch.x, batch, identity("squared")).item() == 0
    assert IRM().penalty(batch.x, batch, identity("squared")).item() == 64  # (2·2·2)²
