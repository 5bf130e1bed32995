"""surrogate="auto": candidates, cross-fitted risks, the choice, and what is fitted in the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta
from scipy.stats.mstats import hdquantiles

import eqrm
from cases import in_full
from eqrm import Level, QRMClassifier, QRMRegressor
from eqrm.distributions import LogNormal
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators.groups import as_groups
from eqrm.estimators.selection.surrogates import (
    ERM,
    RECALIBRATED,
    Surrogate,
    SurrogateChoice,
    cross_fit,
    trained_candidates,
)
from eqrm.evaluation.inference.sureness import resampled_smooth_quantiles
from eqrm.linear.scored_rows import Correction

Data = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def world(kind: str, seed: int = 0, domains: int = 40, rows: int = 60) -> Data:
    """A feature whose slope is reversed in some domains, or a base rate that varies."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(domains), rows)
    X = rng.normal(size=(len(ids), 2))
    if kind == "slope":
        slope = np.where(rng.random(domains) < 0.25, -1.0, 1.0)[ids]
        return X, (X[:, 0] + slope * X[:, 1] + 0.5 * rng.logistic(size=len(ids)) > 0) * 1, ids
    if kind == "rate":
        rate = rng.normal(-1.5, 1.2, domains)[ids]
        return X, (X[:, 0] + rate + rng.logistic(size=len(ids)) > 0) * 1, ids
    return X, X[:, 0] + rng.normal(size=len(ids)), ids


def test_candidates_are_around_the_level_and_exist() -> None:
    for alpha in (0.1, 0.5, 0.9, 0.99, "1-e^-1000"):
        level = Level.of(alpha)
        found = trained_candidates(level)
        assert Surrogate("quantile", level) in found
        assert len(set(found)) == len(found)
        assert all(0.0 < s.level.alpha <= 1.0 and s.level.tail < 1.0 for s in found)


def test_cross_fitted_risks_are_those_of_models_that_have_not_seen_the_domain() -> None:
    X, y, ids = world("rate", domains=12, rows=30)
    level = Level(0.8)
    way = Surrogate("superquantile", level)
    found = cross_fit(QRMClassifier(), (ERM, way), X, y, as_groups(ids, len(ids)))
    left_out = found.folds[ids == 3][0]
    others = found.folds != left_out
    for surrogate, model in (
        (ERM, QRMClassifier(alpha=None)),
        (way, QRMClassifier(alpha=level, measure="superquantile")),
    ):
        model.fit(X[others], y[others], groups=ids[others])
        expected = model.losses(X[ids == 3], y[ids == 3]).mean()
        assert found.risks(surrogate, level)[3] == pytest.approx(expected, rel=1e-4)
    shifted = found.risks(RECALIBRATED[0], level)
    assert not np.allclose(shifted, found.risks(ERM, level))


def test_quantiles_are_harrell_and_davis_and_the_rule_is_one_standard_error() -> None:
    rng = np.random.default_rng(0)
    base = rng.lognormal(size=60)
    risks = np.stack(
        [base, base * 0.995 + 0.02, base * 0.7, base * 0.7 * np.exp(rng.normal(size=60) * 0.1)]
    )
    names = (ERM, *RECALIBRATED, Surrogate("quantile", Level(0.9)))
    choice = SurrogateChoice(Level(0.9), names, risks)
    expected = [float(hdquantiles(row, [0.9])[0]) for row in risks]
    np.testing.assert_allclose(choice.quantiles, expected, rtol=1e-9)
    # Compared by the weights of four times fewer domains.
    weights = np.diff(beta(0.9 * 61 / 4, 0.1 * 61 / 4).cdf(np.arange(61) / 60))
    compared = np.sort(risks, axis=1) @ weights
    near = compared - compared.min() <= np.minimum(choice.errors, 0.01 * compared.min())
    assert near[choice.place]
    assert choice.means[choice.place] == choice.means[near].min()
    assert choice.errors[compared.argmin()] == 0.0
    assert choice.optimism >= 0.0
    _, drawn = resampled_smooth_quantiles(risks, Level(0.9), 200, seed=0)
    assert drawn.std(axis=0)[0] == pytest.approx(0.35 * choice.quantiles[0], rel=1.0)


def test_beyond_the_domains_log_normal_laws_are_compared() -> None:
    rng = np.random.default_rng(0)
    risks = np.exp(rng.normal(size=(2, 40)) * [[0.2], [0.6]])
    risks[0, 0] = 1.01 * risks[1].max()  # one domain decides by the largest risk, not by the law
    choice = SurrogateChoice(Level(0.99), (ERM, Surrogate("quantile", Level(0.99))), risks)
    assert choice.lognormal
    expected = [LogNormal(row).quantile(0.99).item() for row in risks]
    np.testing.assert_allclose(choice.quantiles, expected, rtol=1e-12)
    assert choice.chosen == ERM
    both = replace(
        choice, candidates=(ERM, *RECALIBRATED), risks=risks[[0, 1, 1]] * [[1], [1.1], [1]]
    )
    assert both.chosen == RECALIBRATED[1]  # although ERM is lowest
    again = np.random.default_rng(0).integers(0, 40, (500, 40))  # the same resamples, one by one
    drawn = LogNormal(risks[:, again]).quantile(0.99)
    np.testing.assert_allclose(choice.errors[1], (drawn[1] - drawn[0]).std(), rtol=1e-9)
    for level, few in (
        (Level(0.9), risks),
        (Level(1.0), risks),
        (Level(0.99), risks - risks.min()),
    ):
        assert not replace(choice, level=level, risks=few).lognormal


@pytest.mark.parametrize("kind", ["rate", *in_full("slope", "numbers")])
def test_auto_fits_what_it_chose(kind: str) -> None:
    X, y, ids = world(kind)
    cls = QRMRegressor if kind == "numbers" else QRMClassifier
    model = cls(alpha=0.9, surrogate="auto").fit(X, y, groups=ids)
    choice = model.surrogate_
    assert model.level_ == Level(0.9)
    assert model.domain_risks_.shape == (40,)
    assert model.quantile_risk_ == pytest.approx(model.quantile_at(0.9))
    if choice.chosen.level is not None:
        plain = cls(alpha=choice.chosen.level, measure=choice.chosen.measure)
        np.testing.assert_allclose(plain.fit(X, y, groups=ids).coef_, model.coef_, rtol=1e-6)
    else:
        erm = cls(alpha=None).fit(X, y, groups=ids)
        ratio = model.coef_ / erm.coef_
        np.testing.assert_allclose(ratio, ratio.ravel()[0])
    if kind == "slope":
        assert choice.chosen.level is not None


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_a_chosen_model_is_saved_and_loaded(model: str, tmp_path: Path) -> None:
    X, y, ids = world("rate", domains=20, rows=30)
    found = QRMClassifier(surrogate="auto", model=model, hidden=(4,), erm_steps=20, steps=20)
    found.fit(X, y, groups=ids)
    found._correct(eqrm.linear.recalibration.Correction(0.3, 0.5))
    eqrm.save_model(found, tmp_path / "m.safetensors")
    again = eqrm.load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), found.predict_proba(X))
    assert again.surrogate_.chosen == found.surrogate_.chosen
    assert again.surrogate_.table() == found.surrogate_.table()


def test_what_cannot_be_chosen_is_refused_or_said() -> None:
    X, y, ids = world("rate", domains=8, rows=20)
    with pytest.warns(EqrmWarning, match="at least 10 training domains"):
        few = QRMClassifier(surrogate="auto").fit(X, y, groups=ids)
    np.testing.assert_allclose(few.coef_, QRMClassifier().fit(X, y, groups=ids).coef_)
    assert few.surrogate_ is None
    with pytest.raises(SettingError, match="Unknown surrogate 'best'"):
        QRMClassifier(surrogate="best").fit(X, y, groups=ids)
    for wrong in ({"alpha": None}, {"measure": "superquantile"}):
        with pytest.raises(SettingError, match="needs a level as alpha and measure='quantile'"):
            QRMClassifier(surrogate="auto", **wrong).fit(X, y, groups=ids)
    X, y, ids = world("rate", domains=12, rows=20)
    rare = np.where(ids == 0, 2, y)
    with pytest.raises(DomainDataError, match="Class 2 occurs in too few domains"):
        QRMClassifier(surrogate="auto").fit(X, rare, groups=ids)


def test_a_second_fit_leaves_nothing_of_the_first() -> None:
    X, y, ids = world("rate", domains=12, rows=20)
    for model in (QRMClassifier(0.9), eqrm.LGBMQRMClassifier(0.9, n_estimators=2, n_jobs=1)):
        expected = model.fit(X, y, groups=ids).predict_proba(X)
        model.correction_, model.surrogate_ = Correction(1.0, 0.5), None  # as "auto" leaves them
        assert not np.allclose(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.fit(X, y, groups=ids).predict_proba(X), expected)
        assert not hasattr(model, "surrogate_")
