"""Certificates for k-dependent domains: against a plain search, and in simulated worlds."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import stats
from studies.domains_in_time.coverage import SEQUENCES, dependent_coverage
from studies.domains_in_time.worlds import risk_laws

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation import domains_needed, quantile_bound

NEEDED = {0: 29, 1: 71, 2: 106, 5: 211}
STATED = 0.95


def searched_bound(risks: np.ndarray, alpha: float, miss: float, k: int) -> float:
    """The smallest risk with twice the mean p-value at most ``miss``, by trying all of them."""
    for bound in np.sort(risks):
        parts = [risks[first :: k + 1] for first in range(k + 1)]
        p = [stats.binom.sf((part <= bound).sum() - 1, part.size, alpha) for part in parts]
        if (2 if k else 1) * np.mean(p) <= miss:
            return float(bound)
    return math.inf


@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_the_bound_is_the_smallest_risk_whose_combined_p_value_is_small_enough(k: int) -> None:
    rng = np.random.default_rng(k)
    for m in (NEEDED[k], 230, 301):
        risks = rng.normal(size=m).round(1)
        found = quantile_bound(risks, 0.9, 0.95, dependence=k)
        assert found.bound == searched_bound(risks, 0.9, 0.05, k)
        assert np.sort(risks)[found.rank - 1] == found.bound


@pytest.mark.parametrize(("k", "needed"), NEEDED.items())
def test_the_number_needed_is_enough_and_one_fewer_is_refused(k: int, needed: int) -> None:
    assert domains_needed(0.9, 0.95, dependence=k) == needed
    risks = np.random.default_rng(0).random(needed)
    assert quantile_bound(risks, dependence=k).bound == risks.max()
    message = f"at least {needed} are needed"
    with pytest.raises(TooFewDomainsError, match=re.escape(message)) as caught:
        quantile_bound(risks[1:], dependence=k)
    assert caught.value.needed == needed


def test_the_order_of_domains_matters_only_if_they_are_dependent() -> None:
    risks = np.random.default_rng(3).random(120)
    rising = np.sort(risks)
    assert quantile_bound(risks).bound == quantile_bound(rising).bound
    assert quantile_bound(risks, dependence=1).sentence.endswith(
        "belong to a stationary sequence in which domains more than 1 place apart are independent."
    )


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("k", [1, 5])
def test_bounds_hold_as_often_as_stated(sequence: str, k: int) -> None:
    """In 2,000 worlds of every law: ``python -m studies domains-in-time``."""
    found = dependent_coverage(sequence, risk_laws()[1], k, NEEDED[k], worlds=200, seed=4)
    assert found.held >= STATED - 4 * math.sqrt(STATED * (1 - STATED) / 200)
