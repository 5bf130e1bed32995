"""Comparing quantiles of two models: against scipy, and by simulated worlds with a known truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats.mstats import hdquantiles

from eqrm import Level
from eqrm.evaluation.inference.sureness import (
    CLEAR,
    LIKELY,
    QuantileChange,
    Sureness,
    compare_quantiles,
    drawn_counts,
    optimism_of_choosing,
    resampled_smooth_quantiles,
    smooth_quantile,
)

Array = NDArray[np.float64]
Generator = np.random.Generator
Law = Callable[[Generator, int], Array]
LEVEL = Level(0.9)
SIZES = (30, 60, 100, 200)


# Worlds: true risks of a reference and of a chosen model (2, m).


def log_normal(change: float, own: float) -> Law:
    """A common factor, and what each model has of its own."""

    def risks(generator: Generator, domains: int) -> Array:
        common, each = generator.normal(size=domains), generator.normal(size=(2, domains))
        scale = np.array([[1.0], [1.0 + change]])
        return np.asarray(scale * np.exp(0.4 * common + own * each))

    return risks


def heavy_tails(generator: Generator, domains: int) -> Array:
    each = np.exp(0.1 * generator.normal(size=(2, domains)))
    return np.asarray(np.array([[1.0], [0.94]]) * (1.0 + generator.pareto(2.5, domains)) * each)


def some_heavy_tails_differ(generator: Generator, domains: int) -> Array:
    one, other = 1.0 + generator.pareto(2.5, (2, domains))
    return np.stack([one, 0.6 * one + 0.4 * other])


def equal(generator: Generator, domains: int) -> Array:
    return np.exp(0.3 * np.tile(generator.normal(size=domains), (2, 1)))


def bad_domains(
    share: float,
    good: tuple[float, float] = (0.5, 0.5),
    bad: tuple[float, float] = (1.0, 0.8),
    spread: float = 0.12,
) -> Law:
    """A share of bad domains, the same for both models."""

    def risks(generator: Generator, domains: int) -> Array:
        is_bad = generator.random(domains) < share
        common, each = generator.normal(size=domains), generator.normal(size=(2, domains))
        middle = np.where(is_bad, np.array(bad)[:, None], np.array(good)[:, None])
        return middle * np.exp(spread * common + 0.04 * each)

    return risks


def reversed_slope(share: float) -> Law:
    """Lower risks on bad domains, higher ones on good domains."""
    return bad_domains(share, good=(0.45, 0.55), bad=(1.1, 0.75), spread=0.15)


SHARES = (4, 8, 10, 12, 15, 20, 30)
KINDS: dict[str, Law] = {
    "log-normal, -6%": log_normal(-0.06, 0.06),
    "log-normal, 0%": log_normal(0.0, 0.1),
    "log-normal, far apart": log_normal(-0.06, 0.25),
    "heavy tails, -6%": heavy_tails,
    "heavy tails, some differ": some_heavy_tails_differ,
    "equal risks": equal,
    **{f"{share}% bad, lower there": bad_domains(share / 100) for share in SHARES},
    **{f"{share}% bad, reversed": reversed_slope(share / 100) for share in SHARES},
}


def measured(generator: Generator, true: Array, fewest: float = 10.0) -> Array:
    """Means of the losses of up to 300 rows a domain, which have the mean risk as deviation."""
    rows = np.exp(generator.uniform(np.log(fewest), np.log(300.0), true.shape[1]))
    shared, each = generator.normal(size=true.shape[1]), generator.normal(size=true.shape)
    noise = np.sqrt(0.8) * shared + np.sqrt(0.2) * each
    return np.asarray(true * np.maximum(1.0 + 0.8 * noise / np.sqrt(rows), 0.05))


@lru_cache(maxsize=100)
def true_change(kind: str, drawn: int = 2_000_000) -> float:
    generator = np.random.default_rng(0)
    before, after = np.quantile(measured(generator, KINDS[kind](generator, drawn)), 0.9, axis=1)
    return float(after / before - 1.0)


def compared(kind: str, domains: int, worlds: int, noisy: bool = True) -> list[QuantileChange]:
    found = []
    for world in range(worlds):
        generator = np.random.default_rng([world, domains, list(KINDS).index(kind)])
        risks = KINDS[kind](generator, domains)
        before, after = measured(generator, risks) if noisy else risks
        found.append(compare_quantiles(after, before, LEVEL))
    return found


def held(found: list[QuantileChange], true: float) -> float:
    return float(np.mean([each.low <= true <= each.high for each in found]))


def lower(found: list[QuantileChange]) -> float:
    return float(np.mean([each.high < 0.0 for each in found]))


@pytest.mark.parametrize(
    "kind",
    [
        "log-normal, 0%",
        "equal risks",
        "8% bad, reversed",
        "12% bad, lower there",
        "20% bad, reversed",
    ],
)
def test_intervals_hold(kind: str) -> None:
    true = true_change(kind, drawn=400_000)
    assert held(compared(kind, 60, 150), true) > 0.93 - 3 * np.sqrt(0.93 * 0.07 / 150)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_in_every_kind_of_world(kind: str) -> None:
    worlds, true = 600, true_change(kind)
    slack = 2.5 * np.sqrt(0.95 * 0.05 / worlds)
    for domains in SIZES:
        assert 0.93 - slack < held(compared(kind, domains, worlds), true) < 0.98 + slack


@pytest.mark.full
def test_six_percent_are_found_as_often_as_they_must_be() -> None:
    for kind, domains, noisy, least in (
        ("log-normal, -6%", 60, False, 0.5),
        ("log-normal, -6%", 182, False, 0.85),
        ("20% bad, lower there", 60, True, 0.55),
    ):
        assert lower(compared(kind, domains, 1000, noisy)) > least - 1.5 * np.sqrt(0.25 / 1000)


@pytest.mark.full
@pytest.mark.parametrize(("correlation", "least"), [(0.5, 0.93), (0.7, 0.92)])
def test_blocks_hold_where_domains_depend_on_their_neighbours(
    correlation: float, least: float
) -> None:
    worlds, domains = 300, 200
    shares = {}
    for blocks in (None, 6):
        found = []
        for world in range(worlds):
            noise = np.random.default_rng(world).normal(size=(3, domains))
            for i in range(1, domains):
                fresh = np.sqrt(1.0 - correlation**2) * noise[:, i]
                noise[:, i] = correlation * noise[:, i - 1] + fresh
            before = np.exp(0.4 * noise[0] + 0.06 * noise[1])
            after = 0.94 * np.exp(0.4 * noise[0] + 0.06 * noise[2])
            found.append(compare_quantiles(after, before, LEVEL, blocks=blocks))
        shares[blocks] = held(found, -0.06)
    assert shares[6] > least > shares[None] - 0.02


# Choosing among candidates.


def candidates(generator: Generator) -> Law:
    """A random world of 4 to 8 candidates, of which the first is the reference."""
    number, own = int(generator.integers(4, 9)), float(generator.choice([0.02, 0.05, 0.1]))
    size, share = float(generator.choice([0.01, 0.03, 0.06])), float(generator.uniform(0.0, 0.3))
    on_good = size * generator.normal(size=(number, 1))
    on_bad = on_good + 2 * size * generator.normal(size=(number, 1))
    on_good[0] = on_bad[0] = 0.0

    def risks(generator: Generator, domains: int) -> Array:
        bad, common = generator.random(domains) < share, generator.normal(size=domains)
        each = np.where(bad, on_bad, on_good) + own * generator.normal(size=(number, domains))
        return measured(generator, np.where(bad, 1.0, 0.5) * np.exp(0.15 * common + each))

    return risks


def lowest(risks: Array) -> int:
    return int(np.argmin([smooth_quantile(each, LEVEL) for each in risks]))


def statements(
    worlds: int, sizes: tuple[int, ...], fresh: int = 200_000
) -> list[tuple[QuantileChange, float, float]]:
    """What is said of the candidate with the lowest quantile, the truth, and the naive change."""
    said = []
    for world in range(worlds):
        generator = np.random.default_rng(world)
        law = candidates(generator)
        true = np.quantile(law(np.random.default_rng(0), fresh), 0.9, axis=1)
        for domains in sizes:
            risks = law(generator, domains)
            place = lowest(risks)
            if place == 0:
                continue
            optimism = optimism_of_choosing(risks, LEVEL, lowest)
            found = compare_quantiles(risks[place], risks[0], LEVEL, optimism=optimism)
            naive = smooth_quantile(risks[place], LEVEL) / smooth_quantile(risks[0], LEVEL) - 1.0
            said.append((found, float(true[place] / true[0] - 1.0), naive))
    return said


def right(said: list[tuple[QuantileChange, float, float]], word: Sureness) -> tuple[float, int]:
    own = [true < 0.0 for found, true, _ in said if found.sureness == word]
    return float(np.mean(own)) if own else 1.0, len(own)


def test_clear_and_likely_are_right_after_choosing() -> None:
    said = statements(50, (60,), fresh=20_000)
    clear, number = right(said, Sureness.CLEAR)
    assert number >= 10
    assert clear >= 0.9
    assert right(said, Sureness.LIKELY)[0] >= 0.6


@pytest.mark.full
def test_words_are_right_as_often_as_promised() -> None:
    said = statements(500, SIZES)
    error = np.mean([[found.change - true, naive - true] for found, true, naive in said], axis=0)
    assert right(said, Sureness.CLEAR)[0] >= 0.95
    assert right(said, Sureness.LIKELY)[0] >= 0.75
    assert abs(error[0]) < 0.5 * abs(error[1])


# What the numbers are.


@pytest.mark.parametrize("domains", [12, 157, 2000])
@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_resampled_quantiles_are_those_of_scipy(domains: int, alpha: float) -> None:
    risks = np.random.default_rng(0).lognormal(size=(2, domains))
    found, drawn = resampled_smooth_quantiles(risks, Level(alpha), 20, seed=3)
    counts = np.concatenate(list(drawn_counts(domains, 20, seed=3)))
    for place, each in enumerate(risks):
        theirs = [hdquantiles(np.repeat(each, own), [alpha])[0] for own in counts]
        np.testing.assert_allclose(drawn[:, place], theirs, rtol=1e-9)
        assert found[place] == pytest.approx(hdquantiles(each, [alpha])[0])


def test_blocks_are_of_consecutive_domains() -> None:
    counts = next(drawn_counts(12, 50, seed=0, block=4))
    assert (counts.sum(axis=1) == 12).all()
    edges = (np.diff(counts, axis=1, append=counts[:, :1]) != 0).sum(axis=1)
    assert (edges <= 6).all()  # three blocks
    assert (next(drawn_counts(12, 5, seed=0, block=12)) == 1).all()
    apart = next(drawn_counts(12, 50, seed=0))
    assert apart.var() < counts.var() + 0.5


def test_the_change_is_of_harrell_davis_estimates_in_units_of_the_reference() -> None:
    before, after = np.random.default_rng(0).lognormal(size=(2, 80))
    found = compare_quantiles(after, before, LEVEL)
    theirs = hdquantiles(after, [0.9])[0] / hdquantiles(before, [0.9])[0] - 1.0
    assert found.change == pytest.approx(theirs)
    assert found.low < found.change < found.high
    assert found.domains == 80
    scaled = compare_quantiles(7.0 * after, 7.0 * before, LEVEL)
    assert (scaled.low, scaled.high) == pytest.approx((found.low, found.high))


def test_equal_risks_are_a_toss_up_without_width() -> None:
    risks = np.random.default_rng(0).lognormal(size=40)
    found = compare_quantiles(risks, risks, LEVEL)
    assert (found.change, found.low, found.high, found.probability) == (0.0, 0.0, 0.0, 0.5)
    assert found.sureness is Sureness.TOSS_UP
    constant = compare_quantiles(np.full(40, 0.7), np.full(40, 0.7), LEVEL)
    assert (constant.low, constant.high, constant.probability) == (0.0, 0.0, 0.5)


@pytest.mark.parametrize("shift", [-3.0, -1.2, 0.0])
def test_risks_of_any_sign_have_finite_intervals(shift: float) -> None:
    before, after = np.random.default_rng(0).normal(size=(2, 60)) + shift
    found = compare_quantiles(after - 0.5, before, LEVEL)
    assert np.isfinite([found.low, found.high]).all()
    assert found.change < 0.0 < found.probability - 0.5
    assert compare_quantiles(np.zeros(60) - 1.0, np.zeros(60), LEVEL).change == -1.0


def test_the_optimism_of_choosing_among_equals_is_what_it_is() -> None:
    """Of candidates with one law; the truth is the mean of estimates that were not chosen."""
    chosen, corrected, others = [], [], []
    for seed in range(60):
        risks = np.random.default_rng(seed).lognormal(sigma=0.3, size=(6, 50))
        chosen.append(smooth_quantile(risks[lowest(risks)], LEVEL))
        corrected.append(chosen[-1] + optimism_of_choosing(risks, LEVEL, lowest))
        others.append(np.mean([smooth_quantile(each, LEVEL) for each in risks]))
    gap = np.mean(others) - np.mean(chosen)
    assert gap > 0.05
    assert abs(np.mean(others) - np.mean(corrected)) < 0.4 * gap


def test_words_begin_at_their_probabilities() -> None:
    assert Sureness.of(CLEAR) is Sureness.CLEAR
    assert Sureness.of(CLEAR - 1e-9) is Sureness.of(LIKELY) is Sureness.LIKELY
    assert Sureness.of(LIKELY - 1e-9) is Sureness.TOSS_UP
    found = compare_quantiles(np.linspace(0.1, 0.5, 50), np.linspace(0.2, 0.9, 50), LEVEL)
    assert json.loads(json.dumps(found.to_dict()))["sureness"] == "clear"


@pytest.mark.parametrize(("alpha", "most"), [(0.9, 1 - 0.9**20), (0.99, 0.55)])
def test_nothing_is_surer_than_that_a_domain_lies_beyond_the_level(
    alpha: float, most: float
) -> None:
    risks = np.linspace(1.0, 2.0, 20)
    lower = compare_quantiles(0.5 * risks, risks, Level(alpha))
    higher = compare_quantiles(2.0 * risks, risks, Level(alpha))
    assert lower.probability == pytest.approx(most)
    assert higher.probability == pytest.approx(1.0 - most)
