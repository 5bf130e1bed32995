from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from eqrm.objectives import SagNet
from objectives.toy_worlds import predictor_for, toy_batch

SHAPES = [(6, 10), (6, 3, 5, 5)]


def style_of(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each example: over space for maps, else over features."""
    rows = features.reshape(*features.shape[: max(1, min(2, features.ndim - 2))], -1)
    shape = (*rows.shape[:-1], *[1] * (features.ndim - rows.ndim + 1))
    mean = rows.mean(dim=-1)
    return mean.reshape(shape), rows.std(dim=-1, unbiased=False).reshape(shape)


def content_of(features: Tensor) -> Tensor:
    mean, deviation = style_of(features)
    return (features - mean) / deviation


def varied_features(shape: tuple[int, ...]) -> Tensor:
    """Features whose styles differ a lot, so that a swap shows."""
    features = torch.randn(shape, dtype=torch.float64)
    scale = torch.arange(1, shape[0] + 1).reshape(-1, *[1] * (len(shape) - 1))
    return features * scale + 10.0 * scale


@pytest.mark.parametrize("shape", SHAPES)
def test_randomised_style_keeps_the_content_and_lies_between_two_styles(
    shape: tuple[int, ...],
) -> None:
    features = varied_features(shape)
    mixed = SagNet().other_style(features)
    assert torch.allclose(content_of(mixed), content_of(features), atol=1e-4)
    mean, deviation = style_of(features)
    new_mean, new_deviation = style_of(mixed)
    assert not torch.allclose(new_mean, mean, rtol=1e-2)
    assert bool((new_mean >= mean.amin(dim=0) - 1e-9).all())
    assert bool((new_mean <= mean.amax(dim=0) + 1e-9).all())
    assert bool((new_deviation <= deviation.amax(dim=0) * (1 + 1e-4)).all())


@pytest.mark.parametrize("shape", SHAPES)
def test_randomised_content_keeps_the_style_and_is_another_examples(shape: tuple[int, ...]) -> None:
    features = varied_features(shape)
    mixed = SagNet().other_content(features)
    for new, old in zip(style_of(mixed), style_of(features), strict=True):
        assert torch.allclose(new, old, rtol=1e-4)
    contents, mixed_contents = content_of(features).flatten(1), content_of(mixed).flatten(1)
    distances = torch.cdist(mixed_contents, contents)
    taken = distances.argmin(dim=1)
    assert distances.amin(dim=1).max() < 1e-2
    assert sorted(taken.tolist()) == list(range(6))
    assert taken.tolist() != list(range(6))


def test_gradients_reach_randomised_content_through_style_alone() -> None:
    """A change of one example that leaves its style alone changes nothing, to first order."""
    features = varied_features((6, 10)).requires_grad_()
    weights = torch.randn(6, 10, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weights * SagNet().other_content(features)).sum(), features)
    direction = torch.randn(6, 10, dtype=torch.float64)
    basis = torch.stack([torch.ones_like(features), features.detach()], dim=-1)
    q, _ = torch.linalg.qr(basis)
    direction = direction - (q @ (q.mT @ direction[..., None]))[..., 0]
    along = (gradient * direction).sum(dim=1)
    assert torch.allclose(along, torch.zeros(6, dtype=torch.float64), atol=1e-9)
    assert gradient.abs().max() > 0.1


class Recorder(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.seen: list[Tensor] = []

    def forward(self, features: Tensor) -> Tensor:
        self.seen.append(features.detach().clone())
        return self.network(features)


def test_the_three_updates_see_what_algorithm_1_shows_them() -> None:
    batch = toy_batch(dtype=torch.float64, sizes=(5, 5))
    objective = SagNet(adversarial_weight=0.5)
    predictor = objective.prepare(predictor_for("classes", torch.float64), 2)
    predictor.head = Recorder(predictor.head)
    objective.style_head = Recorder(objective.style_head)
    features = predictor.features(batch.x).detach()
    content, style, adversary = objective.updates(batch, predictor, 0)

    assert torch.allclose(content_of(predictor.head.seen[0]), content_of(features), atol=1e-3)
    assert not torch.allclose(predictor.head.seen[0], features)
    for seen in objective.style_head.seen:
        assert torch.allclose(style_of(seen)[0], style_of(features)[0], rtol=1e-6)
        assert not torch.allclose(content_of(seen), content_of(features), atol=1e-2)

    def ids(parameters) -> set[int]:
        return {id(p) for p in parameters}

    assert ids(content.parameters) == ids(predictor.parameters())
    assert ids(style.parameters) == ids(objective.style_head.parameters())
    assert ids(adversary.parameters) == ids(predictor.featurizer.parameters())
    assert (content.optimizer, style.optimizer, adversary.optimizer) == (
        "predictor",
        "style",
        "predictor",
    )


def test_the_adversary_wants_the_style_head_to_be_unsure() -> None:
    """λ·mean −(1/K)Σ log p_k is least, λ·log K, where all classes are equally likely."""
    batch, objective = toy_batch(), SagNet(adversarial_weight=0.5)
    predictor = objective.prepare(predictor_for("classes"), 5)
    adversary = list(objective.updates(batch, predictor, 0))[2]
    assert adversary.loss.item() > 0.5 * math.log(3)
    for parameter in objective.style_head.parameters():
        nn.init.zeros_(parameter)
    adversary = list(objective.updates(batch, predictor, 0))[2]
    assert adversary.loss.item() == pytest.approx(0.5 * math.log(3), rel=1e-6)
