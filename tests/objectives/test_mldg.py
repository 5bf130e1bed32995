from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from eqrm.objectives import MLDG, Batch
from eqrm.predictors import Predictor
from eqrm.predictors.small_networks import LinearPredictor
from objectives.toy_worlds import predictor_for, risk_of, toy_batch
from objectives.training_loop import gradient_of, only_update

X = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.5], dtype=torch.float64)
Y = torch.tensor([0.3, 1.0, -0.2, 2.0, 0.7], dtype=torch.float64)
DOMAINS = torch.tensor([0, 0, 1, 1, 1])
THETA, INNER, BETA = 0.8, 0.05, 0.6


def one_parameter_world() -> tuple[Batch, Predictor]:
    predictor = LinearPredictor(1, 1, bias=False, loss="squared").double()
    nn.init.constant_(predictor.head.weight, THETA)
    return Batch(X[:, None], Y, DOMAINS, 2), predictor


def risk(domain: int, theta: float) -> float:
    rows = domain == DOMAINS
    return float((theta * X - Y)[rows].square().mean())


def slope(domain: int, theta: float) -> float:
    rows = domain == DOMAINS
    return float((2 * X * (theta * X - Y))[rows].mean())


def curvature(domain: int) -> float:
    return float((2 * X.square())[domain == DOMAINS].mean())


@pytest.mark.parametrize("first_order", [False, True])
def test_least_squares_in_one_parameter_gives_the_loss_and_gradient_worked_out_by_hand(
    first_order: bool,
) -> None:
    """F(θ) + βG(θ − aF′(θ)) has derivative F′ + βG′(θ′)(1 − aF″); first order drops aF″."""
    values, slopes = [], []
    for train, test in ((0, 1), (1, 0)):
        stepped = THETA - INNER * slope(train, THETA)
        values.append(risk(train, THETA) + BETA * risk(test, stepped))
        factor = 1.0 if first_order else 1 - INNER * curvature(train)
        slopes.append(slope(train, THETA) + BETA * slope(test, stepped) * factor)
    objective = MLDG(BETA, inner_learning_rate=INNER, first_order=first_order)
    update = only_update(objective, *one_parameter_world())
    assert update.loss.item() == pytest.approx(sum(values) / 2, rel=1e-12)
    assert gradient_of(update).item() == pytest.approx(sum(slopes) / 2, rel=1e-12)


@pytest.mark.parametrize("num_meta_test", [1, 2])
def test_without_weight_on_the_meta_test_risk_it_is_erm(num_meta_test: int) -> None:
    batch, predictor = toy_batch(dtype=torch.float64), predictor_for("classes", torch.float64)
    update = only_update(MLDG(beta=0.0, num_meta_test=num_meta_test), batch, predictor)
    assert update.loss.item() == pytest.approx(risk_of(predictor, batch), rel=1e-12)
    losses = predictor.losses(predictor(batch.x), batch.y)
    mean = torch.stack([losses[batch.domains == e].mean() for e in range(5)]).mean()
    erm = nn.utils.parameters_to_vector(list(torch.autograd.grad(mean, update.parameters)))
    assert torch.allclose(gradient_of(update), erm, rtol=1e-10)


def test_splits_hold_out_every_domain_equally_often() -> None:
    splits = MLDG(num_meta_test=2).splits([3, 5, 7, 8, 9])
    held_out = Counter(e for _, test in splits for e in test)
    assert set(held_out.values()) == {2}
    assert all(sorted(train + test) == [3, 5, 7, 8, 9] for train, test in splits)


def test_the_look_ahead_leaves_batch_norm_statistics_alone() -> None:
    batch = toy_batch(sizes=(6, 6))
    norm = nn.BatchNorm1d(8)
    predictor = Predictor(nn.Sequential(nn.Linear(3, 8), norm), nn.Linear(8, 3))
    only_update(MLDG(), batch, predictor)
    assert norm.num_batches_tracked.item() == 1
    expected = 0.1 * predictor.featurizer[0](batch.x).mean(dim=0)
    assert torch.allclose(norm.running_mean, expected, atol=1e-6)
