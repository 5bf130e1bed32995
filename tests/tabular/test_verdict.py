"""The verdict: what can be claimed at the edges of certainty, and in worlds of known truth."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eqrm.data import Table
from eqrm.evaluation.inference.gains import MARGIN, gain_over
from eqrm.evaluation.measuring.constants import BASE_RATE, EQUAL_ODDS, MEAN
from eqrm.level import Level
from eqrm.tabular.comparison import LevelResult, compare_training
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.references import ERM
from eqrm.tabular.training import TableTraining, train_on_table
from eqrm.tabular.verdict import HELPS, NOTHING, RECALIBRATE, UNKNOWN, Verdict
from tabular.verdict_worlds import (
    ALPHA,
    ROWS,
    WORLDS,
    World,
    fresh_quantiles,
    log_losses,
    squared_errors,
)

Array = NDArray[np.float64]
NAMES = ("constant", "ERM", "recalibrated", "trained")


def verdict_of(
    factors: tuple[float, ...], domains: int = 200, noise: float = 0.0, level: str = "0.9"
) -> Verdict:
    """Risks that are multiples of each other, apart from noise."""
    rng = np.random.default_rng(0)
    risks = rng.lognormal(sigma=0.1, size=domains)
    shaken = [f * risks * np.exp(noise * rng.normal(size=domains)) for f in factors]
    rows = dict(zip(NAMES, shaken, strict=True))
    order = sorted(NAMES[:3], key=lambda name: factors[NAMES.index(name)])
    return Verdict.of(Level.of(level), rows, "trained", "recalibrated", order)


@pytest.mark.parametrize(
    ("factors", "kind"),
    [
        ((2.0, 1.0, 0.9, 0.8), HELPS),
        ((2.0, 1.0, 0.9, 0.895), RECALIBRATE),
        ((2.0, 1.0, 0.9, 1.1), RECALIBRATE),
        ((2.0, 1.0, 0.99, 1.0), NOTHING),
        ((0.7, 1.0, 0.9, 0.8), NOTHING),  # a constant is better than everything
    ],
)
def test_a_gain_is_claimed_over_every_reference_or_not_at_all(
    factors: tuple[float, ...], kind: str
) -> None:
    found = verdict_of(factors)
    assert found.kind == kind
    assert ("helps: " in found.sentence) is (kind == HELPS)
    if kind == HELPS:
        assert "11.1% below that of 'recalibrated'" in found.sentence


def test_a_quantile_of_many_times_the_reference_is_not_told_in_percent() -> None:
    told = verdict_of((2.0, 1.0, 0.9, 2e4)).sentence
    assert "Training for the level gains nothing by the estimate" in told
    assert "above that of 'recalibrated' by 22,000 times its size (standard error 0.0%)" in told


def test_noise_and_few_domains_leave_it_open() -> None:
    assert verdict_of((2.0, 1.0, 0.9, 0.87), noise=0.5).kind == UNKNOWN
    assert verdict_of((2.0, 1.0, 0.9, 0.5), domains=20).kind == UNKNOWN
    assert "cannot tell" in verdict_of((2.0, 1.0, 0.9, 0.5), domains=20).sentence


def test_a_level_that_no_number_of_domains_reaches_says_so() -> None:
    told = verdict_of((2.0, 1.0, 0.9, 0.5), level="1-e^-1e30").sentence
    assert told.endswith("at this level, more than 1e300 are needed.")


def test_a_reference_without_risk_is_not_divided_by() -> None:
    zero, some = np.zeros(50), np.full(50, 0.1)
    found = gain_over({"a": zero, "b": some}, "b", "a", Level(0.9), 0.95)
    assert np.isfinite([found.change, found.error]).all()
    assert found.interval == "not bounded"
    assert not found.higher


def trained_on(world: World, seed: int) -> TableTraining:
    X, y, domains = world.table(seed)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table = Table(columns, y, domains.astype(str))
    return train_on_table(*table.split(0.5, seed=seed), TrainingPlan.of([ALPHA]))


def scores_of(world: World, seed: int, training: TableTraining) -> dict[str, Array]:
    """The weights of the columns and the intercept (d + 1,) of each predictor, constants too."""
    found = {}
    for name, model in training.models.items():
        estimator, encoder = model.estimator, model.preprocessor.encoder
        width = len(encoder.columns)
        probes = {f"x{j}": np.append(np.eye(width)[j], 0.0) for j in range(width)}
        values = estimator._checked_scores(encoder.transform(probes))
        found[name] = np.append(values[:-1] - values[-1], values[-1])
    _, y, domains = world.table(seed)
    rate = y[np.isin(domains.astype(str), training.models[ERM].estimator.domains_)].mean()
    constants = {MEAN: rate}
    if world.classification:
        constants = {BASE_RATE: np.log(rate / (1 - rate)), EQUAL_ODDS: 0.0}
    return found | {name: np.append(np.zeros(width), score) for name, score in constants.items()}


def truths(world: World, trainings: dict[int, TableTraining]) -> list[str]:
    """The right verdict about the training of each seed, from 100,000 new domains."""
    scores = {seed: scores_of(world, seed, training) for seed, training in trainings.items()}
    stacked = np.stack([each for of_seed in scores.values() for each in of_seed.values()])
    quantiles = iter(fresh_quantiles(world, stacked).tolist())
    return [right_verdict({name: next(quantiles) for name in each}) for each in scores.values()]


def right_verdict(quantiles: dict[str, float]) -> str:
    """By the quantiles of all predictors."""
    middle, own = f"ERM recalibrated for {ALPHA}", f"α = {ALPHA}"
    simple = min(value for name, value in quantiles.items() if name not in (middle, own))
    if quantiles[own] < (1 - MARGIN) * min(simple, quantiles[middle]):
        return HELPS
    return RECALIBRATE if quantiles[middle] < (1 - MARGIN) * simple else NOTHING


def result(training: TableTraining) -> LevelResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_training(training).first
    assert found is not None
    return found


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (0, HELPS),
        pytest.param(6, RECALIBRATE, marks=pytest.mark.full),
        pytest.param(12, NOTHING, marks=pytest.mark.full),
    ],
)
def test_worlds_get_the_right_verdict(place: int, kind: str) -> None:
    """Some of the worlds; the mark ``full`` runs all, with the truth computed."""
    found = result(trained_on(WORLDS[place], seed=1)).verdict
    assert found is not None
    assert found.kind == kind


def verdicts_and_truths(world: World) -> list[tuple[str, str]]:
    """What the summaries of five tables say about a world, and what is true."""
    trainings = {seed: trained_on(world, seed) for seed in range(5)}
    verdicts = [result(training).verdict for training in trainings.values()]
    told = [verdict.kind for verdict in verdicts if verdict is not None]
    return list(zip(told, truths(world, trainings), strict=True))


@pytest.mark.full
@pytest.mark.parametrize(("place", "risks"), [(2, log_losses), (19, squared_errors)])
def test_the_truth_is_about_the_losses_of_the_estimators(place: int, risks: Any) -> None:
    training = trained_on(WORLDS[place], seed=0)
    X, y, _ = WORLDS[place].table(seed=1)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    scores = scores_of(WORLDS[place], 0, training)
    for name, model in training.models.items():
        losses = model.estimator.losses(model.preprocessor.encoder.transform(columns), y)
        (found,) = risks(scores[name][None], X, y)
        np.testing.assert_allclose(found, losses.reshape(-1, ROWS).mean(axis=1), rtol=1e-5)


@pytest.mark.full
def test_verdicts_are_right_in_90_of_100_runs() -> None:
    right, false_helps = 0, 0
    for world in WORLDS:
        pairs = verdicts_and_truths(world)
        right += sum(told == known for told, known in pairs)
        false_helps += sum(told == HELPS != known for told, known in pairs)
        told = ", ".join(t if t == known else f"{t} (true: {known})" for t, known in pairs)
        print(f"{world.name}: {told}")
    print(f"right {right} of 100, false 'helps' {false_helps}")
    assert right >= 90
    assert false_helps <= 5
