from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eqrm.errors import DomainDataError
from eqrm.objectives import CDANN, DANN, Batch, Update
from eqrm.objectives.adversarial import DomainAdversary, reverse_gradient
from eqrm.predictors import Predictor
from objectives.toy_worlds import predictor_for, toy_batch
from objectives.training_loop import gradient_of


def prepared(objective: DomainAdversary, batch: Batch, dtype=torch.float64) -> Predictor:
    predictor = objective.prepare(predictor_for("classes", dtype), batch.num_domains)
    objective.to(dtype)
    return predictor


def updates_without_steps(objective, batch, predictor) -> list[Update]:
    return list(objective.updates(batch, predictor, 0))


def mean_risk_by_hand(predictor: Predictor, batch: Batch) -> Tensor:
    losses = nn.functional.cross_entropy(predictor(batch.x), batch.y, reduction="none")
    present = batch.domains.unique()
    return torch.stack([losses[batch.domains == e].mean() for e in present]).mean()


def test_reversal_leaves_values_alone_and_turns_gradients_round() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(4, 3, dtype=torch.float64)
    assert torch.equal(reverse_gradient(x, 0.7), x)
    (gradient,) = torch.autograd.grad((weights * reverse_gradient(x, 0.7)).sum(), x)
    assert torch.allclose(gradient, -0.7 * weights)


def test_the_predictor_descends_its_risk_and_ascends_the_discriminators_loss() -> None:
    batch, objective = toy_batch(dtype=torch.float64), DANN(reversal_strength=0.3, width=8)
    predictor = prepared(objective, batch)
    *_, last = updates_without_steps(objective, batch, predictor)

    guesses = objective.discriminator(predictor.features(batch.x))
    losses = nn.functional.cross_entropy(guesses, batch.domains, reduction="none")
    confusion = torch.stack([losses[batch.domains == e].mean() for e in range(5)]).mean()
    expected = mean_risk_by_hand(predictor, batch) - 0.3 * confusion
    by_hand = gradient_of(Update(expected, last.parameters))
    assert torch.allclose(gradient_of(last), by_hand, rtol=1e-10, atol=1e-12)
    assert {id(p) for p in last.parameters} == {id(p) for p in predictor.parameters()}


def test_the_gradient_penalty_is_the_squared_slope_of_the_discriminator() -> None:
    batch = toy_batch(dtype=torch.float64)
    objective = DANN(gradient_penalty=2.0, width=8)
    predictor = prepared(objective, batch)
    features = predictor.features(batch.x).detach()
    with_penalty = objective.discriminator_loss(features.clone(), batch, penalise=True)
    without = objective.discriminator_loss(features.clone(), batch, penalise=False)

    def losses(at: Tensor) -> Tensor:
        guesses = objective.discriminator(at).detach()
        return nn.functional.cross_entropy(guesses, batch.domains, reduction="none")

    step, slopes = 1e-6, []
    for j in range(features.shape[1]):
        shift = torch.zeros_like(features)
        shift[:, j] = step
        slopes.append((losses(features + shift) - losses(features - shift)) / (2 * step))
    expected = 2.0 * torch.stack(slopes).square().sum(dim=0).mean()
    assert (with_penalty - without).item() == pytest.approx(expected.item(), rel=1e-5)


def test_cdann_gives_every_domain_the_same_class_prior() -> None:
    y = torch.tensor([0, 0, 0, 1, 0, 1, 1, 2])
    domains = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    weights = CDANN().example_weights(Batch(torch.zeros(8, 1), y, domains, 2))
    third, quarter = 1 / 2 / 3, 1 / 2 / 2
    expected = [quarter / 3] * 3 + [quarter, third, third / 2, third / 2, third]
    assert weights.tolist() == pytest.approx(expected)
    assert weights.sum().item() == pytest.approx(1)


def test_cdann_refuses_targets_that_are_not_classes() -> None:
    with pytest.raises(DomainDataError, match="needs integers as targets"):
        CDANN().example_weights(Batch(torch.zeros(1, 1), torch.tensor([0.5]), torch.tensor([0]), 1))
