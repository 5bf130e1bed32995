"""Linear SCMs: exact moments against path sums and simulation, samples against themselves."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from studies.causal.scm import laws
from studies.linear_worlds import example_domains, example_world, figure_world, random_world

from eqrm.errors import SettingError
from eqrm.linear import DomainMoments
from studies.causal import Do, DomainLaw, LinearSCM, Noise, Scale, Shift

# Mean and variance by their formulas; draws by numpy's own samplers.
LAWS = {
    "normal": (laws.normal(1.0, 2.0), 1.0, 4.0, lambda g, n: g.normal(1.0, 2.0, n)),
    "lognormal": (
        laws.lognormal(0.3, 0.5),
        math.exp(0.3 + 0.125),
        math.expm1(0.25) * math.exp(0.6 + 0.25),
        lambda g, n: g.lognormal(0.3, 0.5, n),
    ),
    "uniform": (laws.uniform_between(-1.0, 3.0), 1.0, 16 / 12, lambda g, n: g.uniform(-1, 3, n)),
    "laplace": (laws.laplace(0.5, 2.0), 0.5, 8.0, lambda g, n: g.laplace(0.5, 2.0, n)),
    "t": (
        laws.student_t(9.0, 1.0, 0.5),
        1.0,
        0.25 * 9 / 7,
        lambda g, n: 1.0 + 0.5 * g.standard_t(9.0, n),
    ),
    "gamma of scipy": (stats.gamma(2.0), 2.0, 2.0, lambda g, n: g.gamma(2.0, 1.0, n)),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_have_their_moments_and_draws(name: str) -> None:
    law, mean, variance, numpy_draws = LAWS[name]
    noise = laws.NoiseLaw.of(law, "X")
    assert (noise.mean, noise.variance) == pytest.approx((mean, variance), rel=1e-12)
    world = LinearSCM({"X": {}, "Y": {}}, "Y", {"Y": law})
    draws = numpy_draws(np.random.default_rng(0), 20_000)
    assert stats.ks_2samp(world.sample(20_000, seed=1)[1], draws).pvalue > 1e-3


def path_sum_moments(scm: LinearSCM) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Mean and covariance of (features, target) by summing over all directed paths."""
    names = list(scm.equations)
    noise = {name: laws.NoiseLaw.of(scm.noise[name], name) for name in names}

    def total(source: str, goal: str) -> Fraction:
        if source == goal:
            return Fraction(1)
        edges = scm.equations[goal].items()
        return sum((Fraction(c) * total(source, parent) for parent, c in edges), Fraction(0))

    columns = [*scm.features, scm.target]
    effect = {(a, b): total(a, b) for a, b in itertools.product(names, columns)}
    mean = [sum(effect[n, c] * Fraction(noise[n].mean) for n in names) for c in columns]
    covariance = [
        [
            sum(effect[n, a] * effect[n, b] * Fraction(noise[n].variance) for n in names)
            for b in columns
        ]
        for a in columns
    ]
    return mean, covariance


@pytest.mark.parametrize("seed", range(20))
def test_population_moments_are_sums_over_directed_paths(seed: int) -> None:
    world = random_world(1 + seed % 6, seed)
    kinds = [[*LAWS.values()][(seed + j) % len(LAWS)][0] for j in range(len(world.equations))]
    noise = dict(zip(world.equations, kinds, strict=True))
    world = LinearSCM(world.equations, "Y", noise)
    mean, covariance = path_sum_moments(world)
    moments = world.population({"observed": []})
    assert moments.mean[0].tolist() == pytest.approx([float(m) for m in mean], rel=1e-12, abs=1e-12)
    exact = torch.tensor([[float(c) for c in row] for row in covariance], dtype=torch.float64)
    scale = exact.diagonal().sqrt()
    error = (moments.covariance[0] - exact).abs() / (scale[:, None] * scale)
    assert float(error.max()) < 1e-12


def test_the_papers_example_has_the_moments_of_appendix_g() -> None:
    moments = example_world(1.5, 2.0, 3.0).population({"observed": []})
    beta = torch.tensor([0.3, 0.9], dtype=torch.float64)
    risk = (0.3 + 0.9 - 1) ** 2 * 1.5**2 + (0.9 - 1) ** 2 * 2.0**2 + 0.9**2 * 3.0**2
    assert moments.risks(beta).item() == pytest.approx(risk, rel=1e-14)


def test_each_intervention_changes_the_equation_as_it_says() -> None:
    # X ← N_X (mean 1, variance 4), Y ← 2X + N_Y, Z ← 3Y + N_Z (variance 9).
    scm = LinearSCM(
        {"X": {}, "Y": {"X": 2.0}, "Z": {"Y": 3.0}},
        "Y",
        {"X": laws.normal(1.0, 2.0), "Z": laws.normal(0.0, 3.0)},
    )
    domains = {
        "observed": [],
        "do": [Do("Z", 5.0)],
        "shift": [Shift("Z", 5.0)],
        "noise": [Noise("Z", factor=2.0)],
        "scale": [Scale("Z", 2.0)],
        "do cause": [Do("X", 5.0)],
        "std": [Noise("X", std=3.0)],
        "factor": [Noise("X", factor=3.0)],
        "law": [Noise("X", law=laws.uniform_between(0.0, 12.0))],
        "two": [Shift("Z", 1.0), Scale("Z", 2.0)],
        "target": [Shift("Y", 1.0), Do("X", 0.0)],
    }
    moments = scm.population(domains)
    columns = {name: (moments.mean[e], moments.covariance[e]) for e, name in enumerate(domains)}
    # Means of X, Z, Y; variances of X, Z, Y; covariance of Z and Y.
    expected = {
        "observed": ([1, 6, 2], [4, 9 * 17 + 9, 17], 51),
        "do": ([1, 5, 2], [4, 0, 17], 0),
        "shift": ([1, 11, 2], [4, 162, 17], 51),
        "noise": ([1, 6, 2], [4, 153 + 36, 17], 51),
        "scale": ([1, 12, 2], [4, 648, 17], 102),
        "do cause": ([5, 30, 10], [0, 18, 1], 3),
        "std": ([1, 6, 2], [9, 9 * 37 + 9, 37], 111),
        "factor": ([3, 18, 6], [36, 9 * 145 + 9, 145], 435),
        "law": ([6, 36, 12], [12, 9 * 49 + 9, 49], 147),
        "two": ([1, 14, 2], [4, 648, 17], 102),
        "target": ([0, 3, 1], [0, 18, 1], 3),
    }
    for name, (mean, variances, covariance) in expected.items():
        found = columns[name]
        assert found[0].tolist() == pytest.approx(mean), name
        assert found[1].diagonal().tolist() == pytest.approx(variances), name
        assert found[1][1, 2].item() == pytest.approx(covariance), name


def test_samples_have_the_population_moments_within_their_error() -> None:
    noise = {
        "X1": laws.uniform_between(-1.0, 2.0),
        "X3": laws.laplace(),
        "Y": laws.student_t(12.0),
    }
    scm = LinearSCM(figure_world(3).equations, "Y", noise)
    domains = {
        "observed": [],
        "many": [Do("X3", 2.0), Scale("X6", -1.5), Noise("X5", std=3.0), Shift("Y", 1.0)],
    }
    rows = 200_000
    sampled, exact = scm.sample_moments(domains, rows, seed=1), scm.population(domains)
    spread = exact.covariance.diagonal(dim1=1, dim2=2).sqrt()
    mean_error = (sampled.mean - exact.mean).abs() / (spread + 1e-300) * rows**0.5
    both = spread.unsqueeze(1) * spread.unsqueeze(2)
    error = (sampled.covariance - exact.covariance).abs() / (both + 1e-300) * rows**0.5
    assert float(mean_error[spread > 0].max()) < 5
    assert float(error[both > 0].max()) < 10
    assert torch.equal(sampled.covariance[both == 0], exact.covariance[both == 0])


def test_streams_samples_and_moments_are_the_same_rows() -> None:
    scm, domains = example_world(), example_domains().draw(3, seed=5)
    streamed = DomainMoments.from_batches(scm.stream(domains, 40_000, seed=2))
    for workers in (1, 3):
        reduced = scm.sample_moments(domains, 40_000, seed=2, workers=workers)
        assert reduced.names == ("0", "1", "2")
        assert torch.allclose(reduced.covariance, streamed.covariance, rtol=1e-12)
    X, y = scm.sample(40_000, domains["2"], seed=2, index=2)
    alone = DomainMoments.from_arrays(X, y, ["2"] * 40_000)
    assert torch.allclose(alone.covariance[0], streamed.covariance[2], rtol=1e-12)
    again = scm.sample_moments(domains, 40_000, seed=2)
    assert torch.equal(again.covariance, scm.sample_moments(domains, 40_000, 2, 1).covariance)
    assert not torch.equal(again.mean, scm.sample_moments(domains, 40_000, seed=3).mean)


def test_different_domains_have_different_samples() -> None:
    scm = example_world()
    (_, first, _), (_, second, _) = scm.stream({"a": [], "b": []}, 100)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.4


def test_a_stream_holds_no_more_than_a_few_blocks() -> None:
    scm, domains = example_world(), example_domains().draw(20)
    tracemalloc.start()
    for _ in scm.stream(domains, 100_000):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # one domain is 2.4e6 bytes, all together are 4.8e7


def test_reducing_many_domains_holds_no_more_than_reducing_one() -> None:
    scm = example_world()
    tracemalloc.start()
    scm.sample_moments(example_domains().draw(60), 40_000, workers=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e7  # the first blocks of all domains would be 4.7e7 bytes


def test_the_law_over_domains_has_the_papers_sigmas() -> None:
    domains = example_domains().draw(4000, seed=0)
    sigmas = [domain[0].std for domain in domains.values()]
    assert stats.kstest(np.log(sigmas), stats.norm(0, 0.5**0.5).cdf).pvalue > 1e-3
    assert example_domains().draw(7, seed=0)["6"] == domains["6"]
    assert example_domains().draw(7, seed=1)["6"] != domains["6"]


def test_hidden_variables_are_left_out_of_the_features() -> None:
    scm = LinearSCM({"H": {}, "X": {"H": 1.0}, "Y": {"H": 1.0, "X": 2.0}}, "Y", features=["X"])
    moments = scm.population({"observed": []})
    assert moments.features == ("X",)
    assert moments.covariance[0].tolist() == [[2.0, 5.0], [5.0, 14.0]]
    with pytest.raises(SettingError, match="'H' is hidden"):
        _ = scm.causal_coefficients


def test_descendants_and_effects_follow_the_figure_of_the_paper() -> None:
    scm = figure_world()
    assert set(scm.features) == {"X1", "X2", "X3", "X5", "X6", "X7", "X8"}
    assert set(scm.descendants("X2")) == {"X3", "Y", "X5", "X6", "X7"}
    assert set(scm.effects) == {"X5", "X6", "X7"}
    assert dict(zip(scm.features, scm.causal_coefficients.tolist(), strict=True)) == {
        **dict.fromkeys(scm.features, 0.0),
        "X1": 1.0,
        "X3": 1.0,
    }


def test_mistakes_are_told_apart() -> None:
    chain = {"X1": {}, "Y": {"X1": 1.0}}
    with pytest.raises(SettingError, match=r"no cycle, got .*→"):
        LinearSCM({"X1": {"X2": 1.0}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}}, "Y")
    with pytest.raises(SettingError, match=r"uses 'X11'.*Did you mean|uses 'X11'.*Choose from"):
        LinearSCM({"X1": {}, "Y": {"X11": 1.0}}, "Y")
    with pytest.raises(SettingError, match="target is 'Z'"):
        LinearSCM(chain, "Z")
    with pytest.raises(SettingError, match="noise for 'Q'"):
        LinearSCM(chain, "Y", {"Q": 1.0})
    with pytest.raises(SettingError, match="At least one feature"):
        LinearSCM({"Y": {}}, "Y")
    with pytest.raises(SettingError, match="differ from each other"):
        LinearSCM(chain, "Y", features=["Y"])
    with pytest.raises(SettingError, match="coefficient of 'X1'"):
        LinearSCM({"X1": {}, "Y": {"X1": np.nan}}, "Y")
    scm = LinearSCM(chain, "Y")
    with pytest.raises(SettingError, match="intervention on 'X3'"):
        scm.population({"a": [Do("X3", 1.0)]})
    with pytest.raises(SettingError, match="is a distribution, but a domain"):
        scm.population({"a": [Shift("X1", laws.normal())]})
    with pytest.raises(SettingError, match="must be named"):
        scm.population([[Do("X1", 1.0)]])
    with pytest.raises(SettingError, match="rows must be an integer of at least 1"):
        scm.sample(0)
    with pytest.raises(SettingError, match="exactly one of factor, std and law"):
        Noise("X1", factor=1.0, std=2.0)
    with pytest.raises(SettingError, match="finite"):
        Do("X1", float("nan"))
    with pytest.raises(SettingError, match="no finite variance"):
        LinearSCM(chain, "Y", {"Y": laws.student_t(2.0)})
    with pytest.raises(SettingError, match="std must be a number above 0"):
        laws.normal(std=0.0)
    with pytest.raises(SettingError, match="DomainLaw takes interventions"):
        DomainLaw(("X1",))


def test_worlds_and_interventions_of_wrong_parts_are_refused() -> None:
    equations = {"X": {}, "Y": {"X": 1.0}}
    scm = LinearSCM(equations, "Y")
    for mistake, message in [
        (lambda: LinearSCM({"X": {}, "Y": ["X"]}, "Y"), "each parent its coefficient"),
        (lambda: LinearSCM({"X": {}, "Y": {"X": "1"}}, "Y"), "must be a finite number"),
        (
            lambda: LinearSCM(equations, "Y", {"Y": -1.0}),
            "noise of 'Y' must be a frozen scipy.stats distribution, or a pos",
        ),
        (lambda: LinearSCM(equations, "Y", 1.0), "for each variable"),
        (lambda: scm.population({"a": Do("X", 1.0)}), "list of interventions"),
        (lambda: scm.population({"a": None}), "list of interventions"),
        (lambda: Do("X", "1"), "must be a finite number"),
        (lambda: Do("X", np.float32("nan")), "must be a finite number"),
        (lambda: Noise("X", std=np.float32(-1.0)), "cannot be negative"),
        (lambda: Noise("X", law=2.0), "must be a distribution"),
        (lambda: DomainLaw(Do("X", 1.0)), "list of interventions"),
        (lambda: DomainLaw((Do("X", 1.0),)).draw(2, seed=-1), "seed must be an integer"),
        (lambda: scm.sample(1.5), "rows must be an integer"),
        (lambda: scm.sample_moments({"a": []}, 5, workers=0), "workers must be an integer"),
        (lambda: LinearSCM(equations, "Y", {"Y": laws.lognormal(0.0, 40.0)}), "finite variance"),
        (lambda: laws.uniform_between(1.0, 0.0), "high must be a number above 1.0"),
    ]:
        with pytest.raises(SettingError, match=message):
            mistake()


def test_numbers_of_numpy_are_numbers() -> None:
    world = LinearSCM({"X": {}, "Y": {"X": np.float32(2)}}, "Y", {"X": np.int64(3)})
    moments = world.population({"a": [Shift("X", np.float32(1.0))]})
    assert moments.covariance[0].tolist() == [[9.0, 18.0], [18.0, 37.0]]
    assert 0 not in DomainLaw((Do("X", laws.normal()),)).draw(2)
