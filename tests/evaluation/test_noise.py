"""Noise and spread: against known worlds, training's own split, and a closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eqrm import domain_risks
from eqrm.errors import DomainDataError, TooFewDomainsError
from eqrm.evaluation.inference.noise import denoised_quantile, denoised_risks, noise_split
from eqrm.objectives.risk_memory import reliability
from evaluation.noisy_worlds import KINDS, SIZES, measure, outcome


@pytest.mark.parametrize("examples", [4, 25, 400])
def test_the_split_finds_the_variances_of_a_known_world(examples: int) -> None:
    true = np.random.default_rng(0).normal(1.0, 0.2, 20_000)
    counts = np.full(true.size, examples)
    split = noise_split(*_ordered(measure(true, counts, "normal", seed=1), counts))
    assert split.noise_variance == pytest.approx(0.64 / examples, rel=0.03)
    assert split.spread_variance == pytest.approx(0.04, rel=0.15)
    assert (split.warning is not None) == (examples == 4)


def _ordered(measured: tuple[np.ndarray, np.ndarray], counts: np.ndarray) -> tuple:
    means, variances = measured
    return means, counts, variances


def test_it_is_the_split_that_training_uses() -> None:
    torch.manual_seed(0)
    losses = torch.randn(600, dtype=torch.float64) + torch.arange(60).repeat_interleave(10) / 60
    risks = domain_risks(losses, torch.arange(60).repeat_interleave(10))
    weights = torch.full((60,), 1 / 60, dtype=torch.float64)
    trained = reliability(risks.values, risks.sampling_variances, weights)
    split = noise_split(risks.values, 10, 10 * risks.sampling_variances)
    assert split.reliability == pytest.approx(float(trained))


def test_many_domains_of_normal_risks_get_their_true_spread_back() -> None:
    true = np.random.default_rng(3).normal(1.0, 0.2, 50_000)
    counts = np.full(true.size, 10)
    means, variances = measure(true, counts, "normal", seed=4)
    without = denoised_risks(means, counts, variances)
    assert means.std() > 1.5 * true.std()
    assert without.std() == pytest.approx(true.std(), rel=0.03)


def test_few_domains_lose_less_of_their_spread_than_many() -> None:
    few, many = ([1.0, 2.0, 3.0] * times for times in (1, 300))
    kept = [float(np.ptp(denoised_risks(risks, 4, 2.0))) for risks in (few, many)]
    assert 2.0 >= kept[0] > kept[1] + 0.1


def test_sampling_variances_agree_with_those_of_the_losses() -> None:
    torch.manual_seed(0)
    ids = torch.tensor([0, 0, 0, 1, 1, 2])
    losses = torch.randn(6, dtype=torch.float64)
    risks = domain_risks(losses, ids)
    variances = [losses[ids == i].var().item() if i < 2 else float("nan") for i in range(3)]
    split = noise_split(risks.values, [3, 2, 1], variances)
    assert split.noise_variance == pytest.approx(float(risks.sampling_variances.mean()))


@pytest.mark.parametrize(
    ("law", "losses", "unequal"),
    [
        ("normal", "normal", False),
        ("lognormal", "normal", True),
        ("uniform", "exponential", False),
        ("beta", "binary", False),
    ],
)
def test_where_noise_dominates_the_error_of_the_quantile_falls(
    law: str, losses: str, unequal: bool
) -> None:
    found = outcome(law, losses, 100, 4, worlds=60, unequal=unequal)
    assert found.noise_share > 0.4
    assert found.ratio < 0.9, str(found)


@pytest.mark.parametrize(
    ("law", "examples"), [("normal", 300), ("lognormal", 100), ("uniform", 100), ("uniform", 300)]
)
def test_where_noise_is_small_it_does_no_harm(law: str, examples: int) -> None:
    found = outcome(law, "normal", 60, examples, worlds=60, unequal=True)
    assert found.noise_share < 0.3
    assert found.ratio < 1.08, str(found)


@pytest.mark.full
def test_denoising_lowers_the_error_where_noise_dominates_and_does_no_harm_elsewhere() -> None:
    """The numbers of ``eqrm.evaluation.inference.noise.CAUTION`` are printed by ``-s``."""
    found = [
        outcome(law, losses, m, n, worlds=200, unequal=unequal)
        for law, losses in KINDS
        for unequal in (False, True)
        for m, n in SIZES
    ]
    noisy = [o for o in found if o.noise_share >= 0.5]
    quiet = [o for o in found if o.noise_share < 0.5]
    for group in (noisy, quiet):
        mean = sum(o.ratio for o in group) / len(group)
        print(f"{len(group)}: × {mean:.2f}, at worst {max(group, key=lambda o: o.ratio)}")
    assert [str(o) for o in noisy if o.ratio >= 1.0 + 2.0 * o.simulation_error] == []
    assert sum(o.ratio for o in noisy) < 0.6 * len(noisy)
    assert [str(o) for o in quiet if o.ratio >= 1.08] == []
    assert sum(o.ratio for o in quiet) < len(quiet)


def test_a_tail_of_small_domains_is_called_noise() -> None:
    generator = np.random.default_rng(0)
    counts = np.where(np.arange(1000) < 950, 2000, 5)
    true = generator.normal(1.0, 0.15, 1000)
    risks = true + generator.normal(0.0, 1.0, 1000) / np.sqrt(counts)
    split = noise_split(risks, counts, 1.0, alpha=0.98)
    assert split.noise_share < 0.5 < split.tail_noise_share
    assert split.warning is not None
    assert "domains with few examples" in split.warning


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
        ([0.1, float("nan")], 5, 1.0, "domain 1 is nan"),
        ([0.1, 0.2], [5, 0], 1.0, "Domain 1 has 0 examples"),
        ([0.1, 0.2], 5, [1.0, float("nan")], "losses of domain 1 is nan"),
        ([0.1, 0.2], 5, [-1.0, 1.0], "losses of domain 0 is -1"),
        ([0.1, 0.2], 1, [float("nan")] * 2, "Every domain has one example"),
        ([0.1, 0.2], 5, [1.0] * 3, "one number per domain"),
    ],
)
def test_bad_input_is_refused(
    risks: list[float], counts: object, variances: object, complaint: str
) -> None:
    with pytest.raises(DomainDataError, match=complaint):
        noise_split(risks, counts, variances)


def test_one_domain_is_refused() -> None:
    with pytest.raises(TooFewDomainsError):
        noise_split([0.1], 5, 1.0)
