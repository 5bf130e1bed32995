"""Bounds for domains in spells: their parts against known values, and simulated worlds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from studies.domains_in_time.coverage import spell_coverage
from studies.domains_in_time.worlds import (
    InTime,
    ar_world,
    autoregressive,
    regime_world,
)

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation import spell_bound
from eqrm.evaluation.inference.in_time.spells import (
    _autoregressive,
    _densities,
    _in_regimes,
    block_length,
    exceedance_correlation,
    spell_evidences,
)


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_exceedances_correlate_as_in_the_bivariate_normal_law(alpha: float) -> None:
    rhos = np.array([-0.4, 0.0, 0.3, 0.7, 0.95])
    z = stats.norm.ppf(alpha)
    both = [stats.multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([z, z]) for r in rhos]
    expected = (np.array(both) - alpha**2) / (alpha * (1 - alpha))
    assert exceedance_correlation(rhos, alpha) == pytest.approx(expected, abs=2e-5)


def test_the_block_length_of_a_long_sequence_is_near_the_true_one() -> None:
    risks = autoregressive(np.random.default_rng(0), 1, 100_000, 0.7)[0]
    lags = 0.7 ** np.arange(1, 200)
    true = 1 + 2 * exceedance_correlation(lags, 0.9).sum()
    assert block_length(risks, 0.9) == pytest.approx(true, rel=0.1)


def test_equal_risks_are_one_spell_of_no_length() -> None:
    assert spell_bound(np.full(100, 0.3)).bound == 0.3


def test_the_statement_says_that_it_is_approximate_and_how_many_domains_count() -> None:
    found = spell_bound(autoregressive(np.random.default_rng(5), 1, 300, 0.5)[0])
    assert found.sentence.startswith("Approximate, because the length of spells is estimated: ")
    assert f"count as {int(300 / found.block_length)} independent domains" in found.sentence
    assert found.to_dict()["approximate"] is True


def test_long_spells_and_few_domains_are_refused_with_the_number_needed() -> None:
    long = autoregressive(np.random.default_rng(6), 1, 200, 0.98)[0]
    with pytest.raises(
        TooFewDomainsError, match="spells of 10 domains and longer cannot be ruled out"
    ) as caught:
        spell_bound(long)
    assert caught.value.needed > 200
    with pytest.raises(TooFewDomainsError, match="at least 60 domains are needed"):
        spell_bound(np.arange(40.0))
    with pytest.raises(TooFewDomainsError, match="at least 299 domains are needed"):
        spell_bound(np.random.default_rng(0).random(200), alpha=0.99)


@pytest.mark.parametrize(
    "world", [ar_world(0.7), regime_world((0, 3, 6, 9), 5)], ids=lambda w: w.name
)
def test_bounds_hold_in_short_spells(world: InTime) -> None:
    found = spell_coverage(world, 200, worlds=100, seed=3)
    assert (found.held or 0) >= 0.92 - 0.05
    assert found.held > found.plain


def test_long_stays_are_refused_that_correlations_do_not_tell_from_ar_sequences() -> None:
    apart = spell_coverage(regime_world((0, 5), 10), 200, worlds=60, seed=3)
    assert apart.refused >= 0.95
    assert apart.wrong <= 0.05
    assert spell_coverage(ar_world(0.7), 200, worlds=60, seed=3).refused <= 0.15


def test_the_likelihood_of_short_spells_is_that_of_ranks() -> None:
    risks = autoregressive(np.random.default_rng(8), 1, 200, 0.6)
    assert spell_evidences(np.exp(3 * risks)) == spell_evidences(risks)


@pytest.mark.parametrize("domains", [30, 200, 900])
def test_many_sequences_at_once_have_the_evidence_of_each_alone(domains: int) -> None:
    risks = autoregressive(np.random.default_rng(11), 20, domains, 0.6)
    assert spell_evidences(risks) == [spell_evidences(each[None])[0] for each in risks]


def test_a_noisy_ar_sequence_has_the_likelihood_of_its_covariance() -> None:
    scores = np.random.default_rng(9).normal(size=30)
    lengths = np.array([3.0, 10.0])
    lags = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
    covariance = 0.6 * (1 - 1.5 / 10.0) ** lags + 0.4 * np.eye(30)
    expected = stats.multivariate_normal(np.zeros(30), covariance).logpdf(scores)
    expected -= stats.norm.logpdf(scores).sum()
    assert _autoregressive(scores[None], lengths)[0, 0, 1, 1] == pytest.approx(expected)


def test_regimes_have_the_likelihood_summed_over_all_their_paths() -> None:
    ranks, mixture = np.array([10, 180, 150, 20]), ((0.0, 2.5), (0.65, 0.35))
    four = ((0.0, 3.0, 6.0, 9.0), (0.25, 0.25, 0.25, 0.25))
    density, stay = _densities((mixture,), 1)[1][ranks][:, :, 0], 5.0
    total = 0.0
    for path in itertools.product((0, 1), repeat=4):
        changes = sum(a != b for a, b in itertools.pairwise(path))
        chance = mixture[1][path[0]] * (1 / stay) ** changes * (1 - 1 / stay) ** (3 - changes)
        total += chance * float(np.prod(density[range(4), path]))
    found = _in_regimes(ranks[None], np.array([stay]), ((mixture,), (four,)))
    assert found[0][0, 0, 0] == pytest.approx(np.log(total))
