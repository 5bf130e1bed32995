from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from eqrm.objectives import CORAL, MMD, Batch
from eqrm.objectives.batch import sizes_of


def three_domains() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(n, 4, dtype=torch.float64) * (i + 1) + i for i, n in enumerate((5, 8, 3))]


def test_coral_is_the_mean_over_pairs_of_squared_covariance_differences() -> None:
    domains = three_domains()
    covariances = [np.cov(f.numpy(), rowvar=False) for f in domains]
    pairs = [((a - b) ** 2).sum() / (4 * 4**2) for a, b in itertools.combinations(covariances, 2)]
    assert float(CORAL().distance(domains)) == pytest.approx(np.mean(pairs), rel=1e-12)


def test_matching_means_adds_a_quarter_of_their_mean_squared_difference() -> None:
    domains = three_domains()
    means = [f.mean(dim=0).numpy() for f in domains]
    pairs = [((a - b) ** 2).mean() / 4 for a, b in itertools.combinations(means, 2)]
    extra = CORAL(match_means=True).distance(domains) - CORAL().distance(domains)
    assert float(extra) == pytest.approx(np.mean(pairs), rel=1e-10)


def test_a_domain_of_one_example_has_covariance_zero() -> None:
    features = three_domains()[0]
    alone = features[:1]
    expected = (np.cov(features.numpy(), rowvar=False) ** 2).sum() / (4 * 4**2)
    assert float(CORAL().distance([features, alone])) == pytest.approx(expected, rel=1e-12)


def test_mmd_is_the_mean_over_pairs_of_kernel_averages() -> None:
    domains, gammas = three_domains(), (0.1, 1.0)

    def mean_kernel(a: np.ndarray, b: np.ndarray) -> float:
        distances = [((p - q) ** 2).sum() for p in a for q in b]
        return float(np.mean([sum(np.exp(-g * d) for g in gammas) for d in distances]))

    pairs = [
        mean_kernel(a, a) + mean_kernel(b, b) - 2 * mean_kernel(a, b)
        for a, b in itertools.combinations([f.numpy() for f in domains], 2)
    ]
    distance = MMD(gammas=gammas).distance(domains)
    assert float(distance) == pytest.approx(np.mean(pairs), rel=1e-10)


def test_far_from_the_origin_mmd_keeps_its_digits() -> None:
    near = [f.float() for f in three_domains()]
    far = [f + 1000.0 for f in near]
    assert float(MMD().distance(far)) == pytest.approx(float(MMD().distance(near)), rel=1e-3)


def test_parts_of_a_batch_are_the_same_with_and_without_known_sizes() -> None:
    domains, values = torch.tensor([2, 2, 0, 1, 1, 1]), torch.arange(6.0)
    sizes = sizes_of(domains.numpy())
    known = Batch(values, values, domains, 3, sizes=sizes).parts(values)
    unknown = Batch(values, values, domains, 3).parts(values)
    assert sizes == (2, 1, 3)
    assert sorted(part.tolist() for part in known) == sorted(part.tolist() for part in unknown)
    assert sizes_of(torch.tensor([0, 1, 0]).numpy()) is None
