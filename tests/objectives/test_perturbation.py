from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eqrm.errors import DomainDataError, SettingError
from eqrm.objectives import RSC, Batch, Mixup
from eqrm.predictors import Predictor
from objectives.toy_worlds import predictor_for, risk_of, toy_batch
from objectives.training_loop import only_update


class Recorder(nn.Module):
    """A featurizer that keeps what it saw."""

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x.detach().clone()
        return x


def test_partners_come_from_one_other_domain_and_share_one_weight() -> None:
    batch = toy_batch()
    partner, weight = Mixup().partners(batch)
    for e in range(5):
        rows = batch.domains == e
        (other,) = batch.domains[partner[rows]].unique().tolist()
        assert other != e
        assert len(weight[rows].unique()) == 1
    own = {e: batch.domains[partner[batch.domains == e]][0].item() for e in range(5)}
    assert sorted(own.values()) == list(range(5)), "every domain is a partner once"


def test_weights_follow_the_beta_distribution() -> None:
    objective, batch = Mixup(concentration=0.2), toy_batch(sizes=(1, 1, 1, 1, 1))
    weights = torch.cat([objective.partners(batch)[1] for _ in range(1000)])
    assert weights.mean().item() == pytest.approx(0.5, abs=0.03)
    assert weights.var().item() == pytest.approx(1 / (4 * (2 * 0.2 + 1)), rel=0.05)


def test_the_network_sees_mixed_inputs_and_pays_for_the_mixed_label() -> None:
    batch, recorder = toy_batch(dtype=torch.float64), Recorder()
    predictor = Predictor(recorder, nn.Linear(3, 3).double())
    torch.manual_seed(5)
    partner, weight = Mixup(2.0).partners(batch)
    torch.manual_seed(5)
    loss = only_update(Mixup(2.0), batch, predictor).loss.item()

    share = weight.double()[:, None]
    mixed = share * batch.x + (1 - share) * batch.x[partner]
    assert torch.equal(recorder.seen, mixed)
    labels = nn.functional.one_hot(batch.y, 3).double()
    soft = share * labels + (1 - share) * labels[partner]
    losses = nn.functional.cross_entropy(predictor.head(mixed), soft, reduction="none")
    risks = [losses[batch.domains == e].mean() for e in range(5)]
    assert loss == pytest.approx(torch.stack(risks).mean().item(), rel=1e-12)


def test_mixup_refuses_inputs_that_cannot_be_averaged() -> None:
    batch = toy_batch()
    with pytest.raises(DomainDataError, match="tensor of real numbers"):
        only_update(
            Mixup(), Batch(batch.x.long(), batch.y, batch.domains, 5), predictor_for("classes")
        )


def linear_head(weight: list[list[float]]) -> Predictor:
    """Features are the inputs, and class k's score has gradient weight[k]."""
    head = nn.Linear(len(weight[0]), len(weight), bias=False)
    head.weight.data = torch.tensor(weight)
    return Predictor(nn.Identity(), head)


def test_rsc_mutes_the_features_with_the_largest_gradient_of_the_true_class() -> None:
    predictor = linear_head([[3.0, 1.0, 2.0, -9.0], [0.0, 5.0, 0.0, 4.0]])
    x, y = torch.ones(2, 4), torch.tensor([0, 1])
    mask = RSC(feature_drop=0.5, example_drop=1.0).mask(x, y, predictor)
    assert mask.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]


def test_rsc_challenges_only_the_examples_that_rely_on_what_is_muted() -> None:
    predictor = linear_head([[4.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    x = torch.tensor([[0.0, 1.0, 1.0], [2.0, 1.0, 1.0], [0.5, 1.0, 1.0], [0.0, 0.0, 0.0]])
    y = torch.zeros(4, dtype=torch.long)
    mask = RSC(feature_drop=1 / 3, example_drop=0.5).mask(x, y, predictor)
    relied_on_feature_0 = [[0, 1, 1], [0, 1, 1]]
    assert mask[[1, 2]].tolist() == relied_on_feature_0
    assert mask[[0, 3]].tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("shares", [(0.0, 0.5), (0.5, 0.0)])
def test_rsc_that_mutes_nothing_is_erm(shares: tuple[float, float]) -> None:
    batch, predictor = toy_batch(), predictor_for("classes")
    loss = only_update(RSC(*shares), batch, predictor).loss
    assert loss.item() == pytest.approx(risk_of(predictor, batch), rel=1e-6)


def test_rsc_says_that_it_needs_classes() -> None:
    with pytest.raises(SettingError, match="Class probabilities are needed"):
        only_update(RSC(), toy_batch("regression"), predictor_for("regression"))
