"""Measures of risk: what each means, everywhere it can be asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqrm import KDE, Level, QRMClassifier, QRMRegressor
from eqrm.errors import SettingError
from eqrm.estimators import (
    LGBMQRMClassifier,
    RiskRobustnessPath,
    XGBQRMClassifier,
    XGBQRMRegressor,
)
from eqrm.estimators.goal import Goal
from eqrm.measures import MEASURES
from estimators.worlds import classes_world, numbers_world

RISKS = np.array([0.3, 0.9, 0.1, 0.7, 0.5])
QUICK = {"hidden": (8,), "erm_steps": 40, "steps": 40, "random_state": 0}
TREES = {"n_estimators": 15, "max_depth": 2, "n_jobs": 1}


def worst_share(risks: Any, alpha: float) -> float:
    """The mean of the worst share 1−α, where that is an integer number of domains."""
    return float(np.sort(risks)[-round(len(risks) * (1.0 - alpha)) :].mean())


def test_each_measure_has_its_value_and_its_distribution() -> None:
    assert Goal.of(0.6).value(RISKS) == pytest.approx(float(KDE(RISKS).quantile(0.6)))
    assert Goal.of(0.6, measure="superquantile").value(RISKS) == pytest.approx(0.8)
    assert Goal.of(0.6, measure="worst").value(RISKS) == 0.9
    assert Goal.of(0.6, measure="mean").value(RISKS) == pytest.approx(0.5)
    for measure in MEASURES:
        assert Goal.of(None, measure=measure).value(RISKS) == pytest.approx(0.5)
    of_kde = Goal.of(0.6, "kde", "superquantile").value(RISKS)
    assert of_kde == pytest.approx(float(KDE(RISKS).superquantile(0.6)))


@pytest.mark.parametrize("measure", ["superquantile", "worst", "mean"])
@pytest.mark.parametrize("make", [QRMClassifier, QRMRegressor])
def test_linear_estimators_minimise_and_prove_it(make: Any, measure: str) -> None:
    world = classes_world() if make is QRMClassifier else numbers_world()
    model = make(0.8, measure=measure).fit(*world)
    expected = {
        "superquantile": worst_share(model.domain_risks_, 0.8),
        "worst": model.domain_risks_.max(),
        "mean": model.domain_risks_.mean(),
    }[measure]
    assert model.quantile_risk_ == pytest.approx(expected, rel=1e-12)
    assert model.optimality_.residual < 1e-8
    others = {other: make(0.8, measure=other) for other in MEASURES if other != measure}
    for other in others.values():
        other.fit(*world)
        found = Goal.of(0.8, None, measure).value(other.domain_risks_)
        assert found > model.quantile_risk_ - 1e-4  # the penalty may make up for a little


def test_the_level_of_worst_and_mean_is_fixed() -> None:
    world = classes_world()
    worst, also = (QRMClassifier(a, measure="worst").fit(*world) for a in (0.1, 0.9))
    np.testing.assert_array_equal(worst.coef_, also.coef_)
    assert worst.level_ == Level(1.0)
    mean = QRMClassifier(0.9, measure="mean").fit(*world)
    erm = QRMClassifier(None).fit(*world)
    np.testing.assert_array_equal(mean.coef_, erm.coef_)
    assert mean.level_ is None
    for model, what in ((worst, "the worst domain"), (mean, "the mean")):
        with pytest.raises(SettingError, match=f"trained for {what}, not for a level"):
            model.certificate(world.X, world.y, world.groups + 1000)


@pytest.mark.parametrize("measure", ["superquantile", "worst"])
@pytest.mark.parametrize("make", [XGBQRMClassifier, LGBMQRMClassifier, XGBQRMRegressor])
def test_boosting_lowers_the_measure(make: Any, measure: str) -> None:
    package = "lightgbm" if make is LGBMQRMClassifier else "xgboost"
    pytest.importorskip(package)
    world = numbers_world() if make is XGBQRMRegressor else classes_world(differ=1.5)
    fitted = {each: make(0.8, measure=each, **TREES).fit(*world) for each in ("mean", measure)}
    goal = Goal.of(0.8, measure=measure)
    assert fitted[measure].quantile_risk_ == goal.value(fitted[measure].domain_risks_)
    assert fitted[measure].quantile_risk_ < goal.value(fitted["mean"].domain_risks_)


def test_a_path_has_a_measure() -> None:
    world = numbers_world()
    path = RiskRobustnessPath(QRMRegressor(measure="superquantile"), [None, 0.5, 0.8]).fit(*world)
    lowest = [
        min(worst_share(risks, level) for risks in path.frontier_.training.risks)
        for level in (0.5, 0.8)
    ]
    found = [model.quantile_risk_ for model in path.frontier_.estimators[1:]]
    assert found == pytest.approx(lowest, rel=1e-12)
    worst = RiskRobustnessPath(QRMRegressor(measure="worst")).fit(*world).frontier_
    assert worst.levels == (None, Level(1.0))
    assert worst.training.risks[1].max() < worst.training.risks[0].max()
    mean = RiskRobustnessPath(QRMRegressor(measure="mean")).fit(*world).frontier_
    assert mean.levels == (None,)
