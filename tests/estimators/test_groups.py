"""Groups to domains, losses to risks, and the slope of an objective in the risks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.estimators.boosting.objective import domain_weights
from eqrm.estimators.groups import Groups, as_groups


def random_groups(rows: int = 500, domains: int = 17) -> tuple[Groups, Any, Any]:
    generator = np.random.default_rng(0)
    groups = as_groups(generator.integers(0, domains, rows), rows)
    return groups, generator.exponential(size=rows), generator.exponential(size=rows)


def test_risks_are_what_pandas_says_they_are() -> None:
    groups, losses, weights = random_groups()
    table = pd.DataFrame({"d": groups.ids, "wl": losses * weights, "w": weights, "l": losses})
    by_domain = table.groupby("d").sum()
    np.testing.assert_allclose(groups.means(losses), table.groupby("d")["l"].mean(), rtol=1e-13)
    expected = by_domain["wl"] / by_domain["w"]
    np.testing.assert_allclose(groups.means(losses, weights), expected, rtol=1e-13)


@pytest.mark.parametrize(
    "objective",
    [eqrm.ERM(), eqrm.EQRM(0.9), eqrm.EQRM(0.6, "gaussian"), eqrm.Superquantile(0.7)],
    ids=lambda objective: f"{objective.name}",
)
def test_domain_weights_match_finite_differences(objective: eqrm.objectives.RiskObjective) -> None:
    risks = np.random.default_rng(1).exponential(size=12)
    value, slope = domain_weights(risks, objective)
    assert slope.sum() == pytest.approx(1.0)
    for domain in range(12):
        step = np.eye(12)[domain] * 1e-6
        up, _ = domain_weights(risks + step, objective)
        down, _ = domain_weights(risks - step, objective)
        assert slope[domain] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-8)
    assert value == pytest.approx(float(slope @ risks))  # all of these are homogeneous
