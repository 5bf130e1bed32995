"""ARM and MTL: predictors that adapt to a domain from its inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eqrm.errors import SettingError
from eqrm.objectives import ARM, MTL, Batch, Objective
from eqrm.objectives.domain_context import ContextPredictor, MarginalTransferPredictor
from eqrm.predictors import MLP, Predictor, ResNet
from objectives.toy_worlds import predictor_for, toy_batch
from objectives.training_loop import only_update, train

ADAPTIVE = pytest.mark.parametrize("objective", [ARM(context_size=2), MTL()], ids=["arm", "mtl"])


def relative_world(num_domains: int, seed: int) -> Batch:
    """y = 1 where x lies above its own domain's mean, which differs wildly between domains."""
    generator = torch.Generator().manual_seed(seed)
    domains = torch.arange(num_domains).repeat_interleave(30)
    deviations = torch.randn(len(domains), 1, generator=generator)
    means = 5 * torch.randn(num_domains, 1, generator=generator)
    return Batch(means[domains] + deviations, (deviations[:, 0] > 0).long(), domains, num_domains)


def accuracy(predictor: Predictor, batch: Batch) -> float:
    outputs = predictor(batch.x, batch.domains)
    return (outputs.argmax(dim=1) == batch.y).float().mean().item()


def accuracy_in_unseen_domains(objective: Objective) -> float:
    training, unseen = relative_world(20, seed=0), relative_world(20, seed=1)
    torch.manual_seed(0)
    predictor = objective.prepare(MLP(1, 2, width=32, depth=1), 20)
    train(objective, predictor, [training] * 300)
    return accuracy(predictor, unseen)


@pytest.mark.unmeasured
@ADAPTIVE
def test_unseen_domains_are_learned_where_only_adaptation_can(objective: Objective) -> None:
    assert accuracy_in_unseen_domains(objective) > 0.85


@ADAPTIVE
def test_a_prediction_changes_with_the_rest_of_its_domain_and_with_nothing_else(
    objective: Objective,
) -> None:
    predictor = objective.prepare(MLP(3, 2, width=8), 3)
    x, domains = torch.randn(5, 3), torch.tensor([0, 0, 0, 1, 1])
    before = predictor(x, domains)
    same_domain, other_domain = x.clone(), x.clone()
    same_domain[1] += 1.0
    other_domain[4] += 1.0
    assert not torch.allclose(predictor(same_domain, domains)[0], before[0])
    assert torch.allclose(predictor(other_domain, domains)[:3], before[:3])


@ADAPTIVE
def test_without_domains_a_batch_is_one_domain(objective: Objective) -> None:
    predictor = objective.prepare(MLP(3, 2, width=8), 3)
    x = torch.randn(5, 3)
    together = predictor(x, torch.full((5,), 17))
    assert torch.allclose(predictor(x), together)
    assert not torch.allclose(predictor(x), predictor(x, torch.tensor([0, 0, 1, 1, 1])))


@ADAPTIVE
def test_a_predictor_that_was_not_prepared_is_refused(objective: Objective) -> None:
    with pytest.raises(SettingError, match=r"prepare\(predictor, num_domains\) returns, got MLP"):
        only_update(objective, toy_batch(), predictor_for("classes"))


def test_arm_averages_the_context_over_the_domain() -> None:
    predictor = ARM(context_size=2).prepare(MLP(3, 2, width=8), 2)
    assert isinstance(predictor, ContextPredictor)
    x, domains = torch.randn(5, 3), torch.tensor([1, 0, 1, 0, 1])
    extended = predictor.with_context(x, domains)
    assert torch.equal(extended[:, :3], x)
    for e in (0, 1):
        rows = domains == e
        expected = predictor.context(x[rows]).mean(dim=0).expand(int(rows.sum()), 2)
        assert torch.allclose(extended[rows, 3:], expected, atol=1e-6)


def test_arm_keeps_what_the_predictor_had_learned() -> None:
    """With the context at zero the widened network is the one that was given."""
    original = MLP(3, 2, width=8)
    predictor = ARM(context_size=2).prepare(original, 2)
    for parameter in predictor.context.parameters():
        nn.init.zeros_(parameter)
    x = torch.randn(4, 3)
    assert torch.allclose(predictor(x), original(x), atol=1e-6)


class Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def mtl_predictor(num_domains: int = 3) -> MarginalTransferPredictor:
    """Features are the inputs, so embeddings can be followed by hand."""
    predictor = MTL().prepare(Predictor(Identity(), nn.Linear(2, 2)), num_domains)
    assert isinstance(predictor, MarginalTransferPredictor)
    return predictor


def test_mtl_running_embeddings_start_at_the_first_batch_and_follow_the_rate() -> None:
    predictor = mtl_predictor()
    domains = torch.tensor([0, 0, 2])
    first = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]])
    predictor.while_training(first, domains, update_rate=0.25)
    assert predictor.embeddings.tolist() == [[2.0, 1.0], [0.0, 0.0], [5.0, 5.0]]
    predictor.while_training(first + 4.0, domains, update_rate=0.25)
    assert predictor.embeddings.tolist() == [[3.0, 2.0], [0.0, 0.0], [6.0, 6.0]]
    assert predictor.seen.tolist() == [True, False, True]


def test_mtl_feeds_the_running_embedding_to_the_head() -> None:
    predictor = mtl_predictor()
    x, domains = torch.randn(4, 2), torch.tensor([0, 0, 1, 1])
    predictor.while_training(torch.randn(4, 2), domains, update_rate=0.25)
    stored = predictor.embeddings.clone()
    outputs = predictor.while_training(x, domains, update_rate=0.25)
    means = torch.stack([x[:2].mean(dim=0), x[2:].mean(dim=0)])
    running = (0.25 * means + 0.75 * stored[:2])[domains]
    assert torch.allclose(outputs, predictor.head(torch.cat([x, running], dim=1)), atol=1e-6)


def test_mtl_differentiates_the_batch_part_of_the_embedding() -> None:
    """d loss / d x of one example reaches the others' outputs through the mean, scaled by rate."""
    predictor = mtl_predictor()
    domains = torch.tensor([0, 0])
    predictor.while_training(torch.zeros(2, 2), domains, update_rate=0.5)
    x = torch.randn(2, 2, requires_grad=True)
    outputs = predictor.while_training(x, domains, update_rate=0.5)
    (gradient,) = torch.autograd.grad(outputs[0, 0], x)
    through_mean = 0.5 * predictor.head.weight[0, 2:] / 2
    assert torch.allclose(gradient[1], through_mean, atol=1e-6)


@pytest.mark.parametrize("scale", [True, False])
def test_arm_takes_images_in_bytes_and_scales_them_before_the_context(scale: bool) -> None:
    network = ResNet(3, 2, depth=18, scale=scale).eval()
    predictor = ARM().prepare(network, num_domains=2).eval()
    images = torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8)
    scaled = network.featurizer[0](images)
    with torch.no_grad():
        seen = predictor.with_context(images, torch.tensor([0, 1, 0]))
        assert torch.equal(seen[:, :3], scaled)
        expected = predictor.context(scaled)[[0, 2]].mean(dim=0)
        assert torch.allclose(seen[[0, 2], 3:], expected.expand(2, -1, -1, -1), atol=1e-6)
        assert predictor(images).shape == (3, 2)
