from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from eqrm.checks import POSITIVE
from eqrm.errors import DomainDataError, SettingError
from eqrm.objectives import Batch, RiskObjective, hyperparameter
from eqrm.objectives.hyperparameters import (
    ChoiceSpace,
    LogUniformSpace,
    UniformSpace,
)
from objectives.toy_worlds import predictor_for, toy_batch
from objectives.training_loop import only_update


class WorstCase(RiskObjective):
    """The largest risk, as a user would write it."""

    name = "worst-case"

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        if weights is not None:
            risks = risks[weights > 0]
        worst = int(risks.argmax())
        if not torch.isfinite(risks).all():
            raise DomainDataError(f"The risk of {{domain}} is {risks[worst]}.", index=(worst,))
        return risks[worst]


def test_a_risk_objective_takes_losses_and_any_domains() -> None:
    losses = torch.tensor([1.0, 3.0, 5.0, 0.0])
    assert WorstCase()(losses, ["a", "a", "b", "b"]).item() == 2.5
    assert WorstCase()(losses, torch.tensor([0, 1, 1, 1])).item() == pytest.approx(8 / 3)
    assert WorstCase()(-losses, torch.tensor([2, 2, 4, 4]), num_domains=6).item() == -2.0


def test_a_bad_risk_is_reported_with_the_domains_name() -> None:
    losses = torch.tensor([1.0, math.inf])
    with pytest.raises(DomainDataError, match="domain 'Rome' is inf"):
        WorstCase()(losses, ["Oslo", "Rome"])
    batch = toy_batch("regression", sizes=(2, 2))
    named = Batch(batch.x, batch.y, batch.domains, 2, names=("Oslo", "Rome"))
    named.y[named.domains == 1] = math.inf
    with pytest.raises(DomainDataError, match="domain 'Rome' is inf"):
        only_update(WorstCase(), named, predictor_for("regression"))


def test_rows_by_domain_keep_the_order_of_the_batch() -> None:
    batch = Batch(torch.arange(5.0), torch.arange(5), torch.tensor([2, 0, 2, 0, 2]), 3)
    rows = {e: r.tolist() for e, r in batch.rows_by_domain().items()}
    assert rows == {0: [1, 3], 2: [0, 2, 4]}
    assert {e: part.x.tolist() for e, part in batch.by_domain().items()} == {
        0: [1.0, 3.0],
        2: [0.0, 2.0, 4.0],
    }
    assert batch.num_present().item() == 2


@pytest.mark.parametrize(
    ("domains", "complaint"),
    [
        (torch.tensor([0.0, 1.0]), "torch.long"),
        (torch.tensor([0, 1, 1]), "same number of examples, got 2 and 3"),
    ],
)
def test_a_malformed_batch_is_refused(domains: Tensor, complaint: str) -> None:
    with pytest.raises(DomainDataError, match=complaint):
        Batch(torch.zeros(2, 1), torch.zeros(2), domains, 2)


def test_search_spaces_cover_their_ranges_and_nothing_else() -> None:
    generator = np.random.default_rng(0)
    logs = np.log10([LogUniformSpace(10, -1, 5).sample(generator) for _ in range(2000)])
    assert -1 <= logs.min() < -0.9 < 4.9 < logs.max() <= 5
    assert logs.mean() == pytest.approx(2, abs=0.15)
    uniform = [UniformSpace(0.5, 0.99).sample(generator) for _ in range(2000)]
    assert 0.5 <= min(uniform) < 0.51 < 0.98 < max(uniform) <= 0.99
    whole = [LogUniformSpace(2, 0, 3, integer=True).sample(generator) for _ in range(500)]
    assert set(whole) == set(range(1, 8))
    assert all(type(w) is int for w in whole)
    assert {ChoiceSpace(("a", "b")).sample(generator) for _ in range(50)} == {"a", "b"}


@dataclass(eq=False, repr=False)
class Tilted(RiskObjective):
    """(1/t)·log mean exp(t·R), as a user would declare it."""

    name = "tilted"
    tilt: float = hyperparameter(2.0, "how much large risks count", POSITIVE, UniformSpace(1, 3))

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        value: Tensor = (self.tilt * risks).exp().mean().log() / self.tilt
        return value


def test_a_hyperparameter_is_declared_once() -> None:
    assert Tilted().tilt == Tilted.hyperparameters["tilt"].default == 2.0
    assert list(inspect.signature(Tilted).parameters) == ["tilt"]
    assert Tilted(3.0)(torch.tensor([1.0, 1.0]), ["a", "b"]).item() == pytest.approx(1.0)
    with pytest.raises(SettingError, match=r"Tilted's tilt \(how much .* above 0, got -1"):
        Tilted(tilt=-1)


def test_a_forgotten_decorator_is_named() -> None:
    class Undecorated(WorstCase):
        tilt: float = hyperparameter(2.0, "how much large risks count")

    with pytest.raises(TypeError, match=r"Undecorated needs the decorator @dataclass"):
        Undecorated(tilt=1.0)
