"""The verdict: what can be claimed at the edges of certainty, and in worlds of known truth."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
from tabular.verdict_worlds import ALPHA, WORLDS, World, fresh_quantiles

Array = NDArray[np.float64]
NAMES = ("constant", "ERM", "recalibrated", "trained")


def verdict_of(factors: tuple[float, ...], domains: int = 200, noise: float = 0.0) -> Verdict:
    """Risks that are multiples of each other, apart from noise."""
    rng = np.random.default_rng(0)
    risks = rng.lognormal(sigma=0.1, size=domains)
    shaken = [f * risks * np.exp(noise * rng.normal(size=domains)) for f in factors]
    rows = dict(zip(NAMES, shaken, strict=True))
    order = sorted(NAMES[:3], key=lambda name: factors[NAMES.index(name)])
    return Verdict.of(Level(0.9), rows, "trained", "recalibrated", order)


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


def test_noise_and_few_domains_leave_it_open() -> None:
    assert verdict_of((2.0, 1.0, 0.9, 0.87), noise=0.5).kind == UNKNOWN
    assert verdict_of((2.0, 1.0, 0.9, 0.5), domains=20).kind == UNKNOWN
    assert "cannot tell" in verdict_of((2.0, 1.0, 0.9, 0.5), domains=20).sentence


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


def truth(world: World, seed: int, training: TableTraining) -> str:
    """The right verdict, from 100,000 new domains."""
    models = {name: model.estimator for name, model in training.models.items()}
    erm, encoder = models[ERM], training.models[ERM].preprocessor.encoder

    def of_model(estimator: Any) -> Callable[[Array, Array], Array]:
        def losses(X: Array, y: Array) -> Array:
            columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
            found: Array = estimator.losses(encoder.transform(columns), y)
            return found

        return losses

    def of_constant(score: float) -> Callable[[Array, Array], Array]:
        return lambda X, y: erm._losses_of(np.full(len(y), score), y)

    _, y, domains = world.table(seed)
    rate = y[np.isin(domains.astype(str), erm.domains_)].mean()
    constants = {MEAN: rate}
    if world.classification:
        constants = {BASE_RATE: np.log(rate / (1 - rate)), EQUAL_ODDS: 0.0}
    losses = {name: of_model(estimator) for name, estimator in models.items()}
    losses |= {name: of_constant(score) for name, score in constants.items()}
    quantiles = fresh_quantiles(world, seed, losses)
    simple = min(quantiles[name] for name in (ERM, *constants))
    middle, own = quantiles[f"ERM recalibrated for {ALPHA}"], quantiles[f"α = {ALPHA}"]
    if own < (1 - MARGIN) * min(simple, middle):
        return HELPS
    return RECALIBRATE if middle < (1 - MARGIN) * simple else NOTHING


def result(training: TableTraining) -> LevelResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_training(training).first
    assert found is not None
    return found


@pytest.mark.unmeasured
@pytest.mark.parametrize(("place", "kind"), [(0, HELPS), (6, RECALIBRATE), (12, NOTHING)])
def test_worlds_get_the_right_verdict(place: int, kind: str) -> None:
    """Some of the worlds; the mark ``full`` runs all, with the truth computed."""
    found = result(trained_on(WORLDS[place], seed=1)).verdict
    assert found is not None
    assert found.kind == kind


def verdict_and_truth(place: int, seed: int) -> tuple[str, str]:
    """What the summary says about a world, and what is true."""
    training = trained_on(WORLDS[place], seed)
    verdict = result(training).verdict
    assert verdict is not None
    return verdict.kind, truth(WORLDS[place], seed, training)


@pytest.mark.full
def test_verdicts_are_right_in_90_of_100_runs() -> None:
    right, false_helps = 0, 0
    for place, world in enumerate(WORLDS):
        pairs = [verdict_and_truth(place, seed) for seed in range(5)]
        right += sum(told == known for told, known in pairs)
        false_helps += sum(told == HELPS != known for told, known in pairs)
        told = ", ".join(t if t == known else f"{t} (true: {known})" for t, known in pairs)
        print(f"{world.name}: {told}")
    print(f"right {right} of 100, false 'helps' {false_helps}")
    assert right >= 90
    assert false_helps <= 5
