"""The paper's linear world: exact moments against the appendix and simulation, and samples."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats
from studies.linear_worlds import ExampleWorld, example_domains

from eqrm.linear import DomainMoments


def test_the_world_has_the_moments_of_appendix_g() -> None:
    domains = {"own": {}, "other": {"X1": 0.5, "X2": 4.0}}
    moments = ExampleWorld(1.5, 2.0, 3.0).population(domains)
    beta = torch.tensor([0.3, 0.9], dtype=torch.float64)
    for risk, (first, second) in zip(
        moments.risks(beta).tolist(), ((1.5, 3), (0.5, 4)), strict=True
    ):
        squares = (0.3 + 0.9 - 1) ** 2 * first**2 + (0.9 - 1) ** 2 * 2.0**2 + 0.9**2 * second**2
        assert risk == pytest.approx(squares, rel=1e-14)


def test_samples_have_the_population_moments_within_their_error() -> None:
    world, domains, rows = ExampleWorld(), {"own": {}, "other": {"X2": 3.0, "Y": 0.5}}, 200_000
    sampled, exact = world.sample_moments(domains, rows, seed=1), world.population(domains)
    spread = np.sqrt(exact.covariance.diagonal(axis1=1, axis2=2))
    both = spread[:, None] * spread[:, :, None]
    assert float(np.abs(sampled.mean / spread).max()) < 5 / rows**0.5
    assert float(np.abs((sampled.covariance - exact.covariance) / both).max()) < 10 / rows**0.5


def test_moments_are_those_of_the_rows_for_any_number_of_workers() -> None:
    world, domains = ExampleWorld(), example_domains(3, seed=5)
    rows = [
        (block[:, :2], block[:, 2], name)
        for index, name in enumerate(domains)
        for block in world.blocks(domains[name], 40_000, 2, index)
    ]
    streamed = DomainMoments.from_batches(rows)
    one, three = (world.sample_moments(domains, 40_000, 2, workers) for workers in (1, 3))
    assert np.allclose(one.covariance, streamed.covariance, rtol=1e-12)
    assert (one.covariance == three.covariance).all()
    assert (one.mean != world.sample_moments(domains, 40_000, seed=3).mean).any()


def test_different_domains_have_different_samples() -> None:
    first, second = (next(ExampleWorld().blocks({}, 100, 0, index))[:, 2] for index in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.4


def test_reducing_many_domains_holds_no_more_than_reducing_one() -> None:
    tracemalloc.start()
    ExampleWorld().sample_moments(example_domains(60), 40_000, workers=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e7  # the first blocks of all domains would be 4.7e7 bytes


def test_the_law_over_domains_has_the_papers_sigmas() -> None:
    domains = example_domains(4000)
    sigmas = [domain["X2"] for domain in domains.values()]
    assert stats.kstest(np.log(sigmas), stats.norm(0, 0.5**0.5).cdf).pvalue > 1e-3
    assert example_domains(7)["6"] == domains["6"]
    assert example_domains(7, seed=1)["6"] != domains["6"]
