"""Groups to domains, losses to risks, and the slope of an objective in the risks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import eqrm
from eqrm.errors import DomainDataError
from eqrm.estimators.boosting.objective import domain_weights
from eqrm.estimators.groups import Groups, as_groups


@pytest.mark.parametrize(
    "form", [[3, -1, 3, 2], np.array([3, -1, 3, 2], dtype=np.int32), torch.tensor([3, -1, 3, 2])]
)
def test_integers_are_named_by_themselves(form: Any) -> None:
    groups = as_groups(form, rows=4)
    assert groups.names == (-1, 2, 3)
    assert groups.ids.tolist() == [2, 0, 2, 1]


def test_no_groups_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(DomainDataError, match=r"groups=groups.*metadata_routing.*alpha=None"):
        as_groups(None, rows=3)


def test_no_groups_are_one_domain_where_no_level_was_asked_for() -> None:
    groups = as_groups(None, rows=3, level_asked=False)
    assert (groups.names, groups.counts.tolist()) == (("all rows",), [3])


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


def test_leaving_out_rows_leaves_out_their_domains() -> None:
    groups = as_groups(["a", "b", "c", "a"], rows=4)
    kept = groups.only(np.array([True, False, True, True]))
    assert (kept.names, kept.ids.tolist(), kept.counts.tolist()) == (("a", "c"), [0, 1, 0], [2, 1])
