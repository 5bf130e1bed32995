"""The risk of a domain as the mean over all its labels, as OGB's training code has it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from eqrm.data import DomainBatches, DomainData
from eqrm.errors import SettingError
from eqrm.objectives import ERM, Batch
from eqrm.objectives.batch import label_weights
from eqrm.predictors import Predictor
from eqrm.training import Phase, Trainer, TrainingSettings

DOMAINS, EXAMPLES, LABELS = 4, 23, 5


def many_labels() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, labels of which most are missing, and domains of unequal sizes."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES, 3, generator=draw)
    y = torch.randint(0, 2, (EXAMPLES, LABELS), generator=draw).float()
    y[torch.rand(y.shape, generator=draw) < 0.6] = torch.nan
    y[:, 0] = 1.0
    return x, y, (torch.rand(EXAMPLES, generator=draw) * DOMAINS).long()


def network() -> Predictor:
    torch.manual_seed(0)
    return Predictor(nn.Identity(), nn.Linear(3, LABELS), loss="binary-cross-entropy")


def test_weights_make_the_mean_over_examples_that_over_labels() -> None:
    x, y, domains = many_labels()
    predictor = network()
    batch = Batch(x, y, domains, DOMAINS, weights=label_weights(y, domains, DOMAINS))
    update = next(iter(ERM().updates(batch, predictor, 0)))
    outputs, present = predictor(x), ~y.isnan()
    each = functional.binary_cross_entropy_with_logits(
        outputs, torch.where(present, y, 0.0), reduction="none"
    )
    pooled = [each[domains == e][present[domains == e]].mean() for e in range(DOMAINS)]
    torch.testing.assert_close(update.loss, torch.stack(pooled).mean())


def test_a_run_trains_with_pooled_labels_and_differs_from_the_mean_over_examples() -> None:
    x, y, domains = many_labels()
    data = DomainData(x, y, domains, tuple("abcd"))

    def trained(domain_risk: str) -> torch.Tensor:
        trainer = Trainer(
            network(),
            data,
            [Phase("eqrm", steps=3, learning_rate=0.1)],
            DomainBatches(data),
            settings=TrainingSettings(device="cpu", domain_risk=domain_risk),
        )
        return next(trainer.fit().predictor.parameters()).detach()

    assert not torch.equal(trained("labels"), trained("examples"))
    torch.testing.assert_close(trained("labels"), trained("labels"), rtol=0, atol=0)


def test_what_cannot_be_pooled_is_refused() -> None:
    x, y, domains = many_labels()
    data = DomainData(x, y, domains, tuple("abcd"))
    with pytest.raises(SettingError, match=r"functions of the domains' risks .*, got coral"):
        Trainer(
            network(),
            data,
            [Phase("coral", steps=3, learning_rate=0.1)],
            settings=TrainingSettings(device="cpu", domain_risk="labels"),
        )
    with pytest.raises(SettingError, match="Unknown value of domain_risk 'label'"):
        TrainingSettings(domain_risk="label")
