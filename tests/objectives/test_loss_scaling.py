from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eqrm.errors import SettingError
from eqrm.objectives import CORAL, ERM, IRM, LossScaling, RiskObjective
from eqrm.objectives.loss_scaling import erm_gradient_norm
from eqrm.predictors import MLP
from objectives.toy_worlds import INPUTS, predictor_for, toy_batch
from objectives.training_loop import gradient_of, only_update


class Scaled(RiskObjective):
    """c times the mean risk; counts how often it was asked, as a stateful objective would."""

    name = "scaled"

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("asked", torch.tensor(0))

    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        self.asked += 1
        return self.factor * risks.mean()


@pytest.mark.parametrize(("weight", "divisor"), [(1e4, 1e4), (1.0, 1.0), (0.01, 1.0)])
def test_the_penalty_weight_divides_when_it_exceeds_one(weight: float, divisor: float) -> None:
    assert LossScaling("penalty-weight").divisor(IRM(weight)) == divisor
    assert LossScaling("penalty-weight").divisor(CORAL(weight)) == divisor


@pytest.mark.parametrize("factor", [0.2, 30.0])
def test_the_gradient_norm_ratio_brings_the_objective_to_the_size_of_erm(factor: float) -> None:
    objective, predictor = Scaled(factor), predictor_for("classes")
    divisor = LossScaling("gradient-norm-ratio").divisor(objective, toy_batch(), predictor)
    assert divisor == pytest.approx(factor, rel=1e-5)


def test_measuring_the_ratio_leaves_a_stateful_objective_as_it_was() -> None:
    objective = Scaled(2.0)
    LossScaling("gradient-norm-ratio").divisor(objective, toy_batch(), predictor_for("classes"))
    assert objective.asked.item() == 0


def test_measuring_sees_the_dropout_masks_of_the_step_that_follows() -> None:
    predictor, batch = MLP(INPUTS, 3, width=16, dropout=0.5).train(), toy_batch()
    torch.manual_seed(3)
    measured = erm_gradient_norm(batch, predictor)
    torch.manual_seed(3)
    update = only_update(ERM(), batch, predictor)
    assert measured == pytest.approx(float(gradient_of(update).norm()), rel=1e-5)
    torch.manual_seed(3)
    erm_gradient_norm(batch, predictor)
    assert torch.equal(torch.rand(4), torch.rand(4, generator=torch.Generator().manual_seed(3)))


def test_the_ratio_needs_a_risk_objective_and_a_batch() -> None:
    with pytest.raises(SettingError, match="needs a batch and the predictor"):
        LossScaling("gradient-norm-ratio").divisor(Scaled(2.0))
    with pytest.raises(SettingError, match="which IRM is not"):
        LossScaling("gradient-norm-ratio").divisor(IRM(), toy_batch(), predictor_for("classes"))
