"""EQRM says when a quantile does not do what its user expects."""

from __future__ import annotations

import warnings

import pytest
import torch

from eqrm.measures import QuantileBelowRisksWarning
from eqrm.objectives import EQRM
from eqrm.objectives.training_warnings import InvarianceWarning

FAR_APART = torch.tensor([1.0, 2.0, 9.0], dtype=torch.float64)


def number_of_warnings(action) -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return sum(issubclass(w.category, QuantileBelowRisksWarning) for w in caught)


@pytest.mark.parametrize("distribution", ["kde", "gaussian"])
def test_a_quantile_below_every_risk_is_reported_with_advice(distribution: str) -> None:
    advice = r"alpha = 0.01 is -.*, below the smallest risk 1\. .*distribution='empirical' or a h"
    with pytest.warns(QuantileBelowRisksWarning, match=advice):
        EQRM(0.01, distribution).of_risks(FAR_APART)


def test_training_that_runs_away_to_minus_infinity_is_reported_once() -> None:
    """mean − 1.28·std of (θ²/10, 10θ²) is negative, so it has no minimum in θ."""
    theta = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    optimizer = torch.optim.SGD([theta], lr=0.01)
    objective = EQRM(0.1, "gaussian")
    losses = []

    def train() -> None:
        for _ in range(100):
            optimizer.zero_grad()
            loss = objective(torch.stack([theta**2 / 10, 10 * theta**2]), ["a", "b"])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    assert number_of_warnings(train) == 1
    assert losses[-1] < 10 * losses[0] < 0


def test_an_absent_domain_is_not_the_smallest_risk() -> None:
    """The quantile lies below the risks of the two present, and above the 0 of the absent one."""
    objective, losses = EQRM(0.1), torch.tensor([5.0, 5.1])
    with pytest.warns(QuantileBelowRisksWarning, match="below the smallest risk 5"):
        objective(losses, torch.tensor([0, 2]), num_domains=3)
    weighted = EQRM(0.1, weights=[0.0, 1.0, 1.0])
    with pytest.warns(QuantileBelowRisksWarning, match="below the smallest risk 5"):
        weighted.of_risks(torch.tensor([0.0, 5.0, 5.1]))


@pytest.mark.parametrize("bandwidth", ["silverman", "silverman-paper", "median", 0.1])
def test_a_bandwidth_that_need_not_equalise_is_reported_near_1(bandwidth: str | float) -> None:
    with pytest.warns(InvarianceWarning, match="Use bandwidth='gaussian-optimal' or 'scott'") as w:
        EQRM("1-e^-51", bandwidth=bandwidth)
    assert w[0].filename == __file__
    EQRM("1-e^-49", bandwidth=bandwidth)
