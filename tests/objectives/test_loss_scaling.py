from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eqrm.errors import SettingError
from eqrm.objectives import CORAL, DANN, IRM, LossScaling, RiskObjective
from objectives.toy_worlds import predictor_for, toy_batch


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


def test_no_scaling_divides_by_one() -> None:
    assert LossScaling().divisor(IRM(penalty_weight=1e4)) == 1.0


@pytest.mark.parametrize(("weight", "divisor"), [(1e4, 1e4), (1.0, 1.0), (0.01, 1.0)])
def test_the_penalty_weight_divides_when_it_exceeds_one(weight: float, divisor: float) -> None:
    assert LossScaling("penalty-weight").divisor(IRM(weight)) == divisor
    assert LossScaling("penalty-weight").divisor(CORAL(weight)) == divisor


def test_an_objective_without_penalty_weight_is_refused() -> None:
    with pytest.raises(SettingError, match="DANN has none"):
        LossScaling("penalty-weight").divisor(DANN())


@pytest.mark.parametrize("factor", [0.2, 30.0])
def test_the_gradient_norm_ratio_brings_the_objective_to_the_size_of_erm(factor: float) -> None:
    objective, predictor = Scaled(factor), predictor_for("classes")
    divisor = LossScaling("gradient-norm-ratio").divisor(objective, toy_batch(), predictor)
    assert divisor == pytest.approx(factor, rel=1e-5)


def test_measuring_the_ratio_leaves_a_stateful_objective_as_it_was() -> None:
    objective = Scaled(2.0)
    LossScaling("gradient-norm-ratio").divisor(objective, toy_batch(), predictor_for("classes"))
    assert objective.asked.item() == 0


def test_a_vanishing_gradient_is_not_divided_by() -> None:
    scaling = LossScaling("gradient-norm-ratio")
    assert scaling.divisor(Scaled(0.0), toy_batch(), predictor_for("classes")) == 1.0


def test_the_ratio_needs_a_risk_objective_and_a_batch() -> None:
    with pytest.raises(SettingError, match="needs batch and predictor"):
        LossScaling("gradient-norm-ratio").divisor(Scaled(2.0))
    with pytest.raises(SettingError, match="cannot scale IRM"):
        LossScaling("gradient-norm-ratio").divisor(IRM(), toy_batch(), predictor_for("classes"))


def test_a_wrong_name_gets_a_suggestion() -> None:
    with pytest.raises(SettingError, match="Did you mean 'penalty-weight'"):
        LossScaling("penalty_weight")
