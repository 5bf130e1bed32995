"""Noise and spread: against known worlds, training's own split, and a closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from eqrm.between_domains import pooled_variances, restricted_log_likelihood
from eqrm.errors import DomainDataError
from eqrm.evaluation import denoised_quantile, noise_split
from eqrm.evaluation.inference.noise import cochran_q, denoised_risks
from evaluation.unequal_worlds import (
    LOSSES,
    accuracy,
    drawn_world,
    measured_losses,
)
from evaluation.unequal_worlds import SIZES as SIZES_OF_DOMAINS

# Two kinds whose sizes differ most; with the mark full all sizes with every kind of losses.
QUICK_WORLDS = (("log-uniform, 2 to 600", "Bernoulli"), ("many of one row", "normal"))


@pytest.mark.parametrize("examples", [4, 40, 400])
def test_the_split_finds_the_variances_of_a_known_world(examples: int) -> None:
    rng = np.random.default_rng(0)
    world = measured_losses(rng.normal(1.0, 0.2, 20_000), np.full(20_000, examples), "normal", rng)
    split = world.split
    assert split.noise_variance == pytest.approx(1.0 / examples, rel=0.03)
    assert split.spread_variance == pytest.approx(0.04, rel=0.15)
    assert (split.warning is not None) == (examples == 4)


class TestUnequalSizes:
    """What the issue asked for: domains of unequal sizes, with a spread that is known."""

    @pytest.mark.unmeasured
    @pytest.mark.parametrize(("sizes", "losses"), QUICK_WORLDS)
    def test_the_standard_deviation_between_domains_is_found(self, sizes: str, losses: str) -> None:
        """25 worlds of each kind of losses; the limits are those of 200, with room for chance."""
        found = accuracy(sizes, losses, worlds=25)
        assert found.error < 0.3, str(found)
        assert found.none_found == 0.0, str(found)
        assert found.quantile_error < 1.1 * found.measured_quantile_error, str(found)

    @pytest.mark.full
    def test_it_is_found_in_200_worlds_of_every_kind(self) -> None:
        table = [accuracy(s, losses, 200) for s in SIZES_OF_DOMAINS for losses in LOSSES]
        for row in table:
            limit = 0.35 if row.sizes.startswith("log-uniform") else 0.25
            assert row.error <= limit, str(row)
            assert row.error <= row.least_error + 0.05, str(row)
            assert row.none_found <= 0.01, str(row)
            assert row.covered >= 0.88, str(row)
            assert row.false_alarms <= 0.12, str(row)
            assert row.quantile_error <= 1.02 * row.measured_quantile_error, str(row)
            assert row.below <= row.true_below + 0.03, str(row)
        unequal = [row for row in table if row.noise > 0.5]
        assert len(unequal) >= 6
        assert all(row.quantile_error < 0.8 * row.measured_quantile_error for row in unequal)

    def test_a_few_tiny_domains_do_not_hide_the_spread(self) -> None:
        """The case that was reported: 12 hospitals of 3 rows, 37 of 20 to 600, a spread of .2."""
        rng = np.random.default_rng(0)
        worlds = []
        for _ in range(40):
            counts = np.append(np.full(12, 3), rng.integers(20, 601, 37))
            true = rng.normal(1.0, 0.2, 49)
            worlds.append(measured_losses(true, counts, "normal", rng))
        errors = np.array([w.split.spread_variance**0.5 for w in worlds]) / 0.2 - 1.0
        assert np.sqrt((errors**2).mean()) < 0.16
        split = worlds[0].split
        assert split.noise_share > 0.5 > 0.2 > split.median_noise_share
        assert split.warning is not None
        assert "most of it in small domains" in split.warning
        assert "in the median domain); true risks differ between domains by" in split.sentence


def test_q_and_its_p_value_are_those_of_the_textbook() -> None:
    """With one variance for all, Q is (m − 1) times the F of a one-way analysis of variance."""
    rng = np.random.default_rng(0)
    groups = [rng.normal(mean, 1.0, 12) for mean in (0.0, 0.2, 0.9, 0.4)]
    means = np.array([group.mean() for group in groups])
    within = np.mean([group.var(ddof=1) for group in groups])
    q, p_value = cochran_q(means, np.full(4, within / 12))
    assert q == pytest.approx(3 * stats.f_oneway(*groups).statistic)
    assert p_value == pytest.approx(stats.chi2(3).sf(q))


def test_the_ends_of_the_interval_are_where_the_likelihood_has_fallen_enough() -> None:
    world = drawn_world("3 to 600", "normal", np.random.default_rng(0))
    split = world.split
    risks = torch.from_numpy(world.risks)
    noise = torch.from_numpy(pooled_variances(world.variances, world.counts) / world.counts)

    def fallen(deviation: float) -> float:
        best = restricted_log_likelihood(split.spread_variance, risks, noise)
        return 2.0 * (best - restricted_log_likelihood(deviation**2, risks, noise))

    for end in (split.spread_low, split.spread_high):
        assert fallen(end) == pytest.approx(stats.chi2(1).ppf(0.95), rel=1e-6)


def test_where_risks_are_equal_the_sentence_names_the_largest_spread_possible() -> None:
    rng = np.random.default_rng(0)
    world = drawn_world("equal", "normal", rng, spread=0.0)
    while world.split.p_value < 0.5:
        world = drawn_world("equal", "normal", rng, spread=0.0)
    split = world.split
    assert "no difference between domains is visible (Cochran's Q, p = 0." in split.sentence
    assert f"of up to {split.spread_high:.3g}" in split.sentence
    assert not split.differs


def test_a_tail_of_small_domains_is_called_noise() -> None:
    generator = np.random.default_rng(0)
    counts = np.where(np.arange(1000) < 950, 2000, 5)
    true = generator.normal(1.0, 0.15, 1000)
    risks = true + generator.normal(0.0, 1.0, 1000) / np.sqrt(counts)
    split = noise_split(risks, counts, 1.0, alpha=0.98)
    assert split.noise_share < 0.5 < split.tail_noise_share
    assert split.warning is not None
    assert "domains with few examples" in split.warning


def test_ties_at_the_quantile_do_not_make_all_domains_the_tail() -> None:
    """Once all domains with the most frequent risk were counted as beyond the quantile."""
    rates = np.repeat([0.0, 0.4], [186, 14])
    variances = rates * (1.0 - rates) * 50 / 49
    split = noise_split(rates, 50, variances, 0.9)
    assert split.tail_noise_share < 0.2
    assert split.warning is None
    apart = rates + 1e-9 * np.arange(200)
    assert noise_split(apart, 50, variances, 0.9).tail_noise_share == pytest.approx(
        split.tail_noise_share, abs=0.02
    )


def test_equal_risks_and_noiseless_risks_are_left_alone() -> None:
    assert denoised_risks([0.5, 0.5, 0.5], 10, 0.0).tolist() == [0.5, 0.5, 0.5]
    risks = np.array([0.1, 0.4, 0.2])
    np.testing.assert_allclose(denoised_risks(risks, 10, 0.0), risks)
    assert noise_split(risks, 10, 0.0).warning is None
    assert noise_split([0.5, 0.5], 10, 1.0).noise_share == 1.0
    assert denoised_quantile(risks, 10, 0.0, 0.9) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("risks", "counts", "variances", "complaint"),
    [
        ([0.1, 0.2], [5, 0], 1.0, "Domain 1 has 0 examples"),
        ([0.1, 0.2], 5, [1.0, float("nan")], "losses of domain 1 is nan"),
        ([0.1, 0.2], 1, [float("nan")] * 2, "Every domain has one example"),
    ],
)
def test_bad_input_is_refused(
    risks: list[float], counts: object, variances: object, complaint: str
) -> None:
    with pytest.raises(DomainDataError, match=complaint):
        noise_split(risks, counts, variances)
