"""What a linear solver cannot use is refused in words."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import eqrm
from eqrm import Level, LinearQRM
from eqrm.errors import DomainDataError, LevelError, SettingError
from eqrm.linear import DomainMoments, LinearERM, LinearIRM, LinearVREx
from eqrm.linear.linear_model import NotConvergedWarning
from eqrm.linear.solving.search import UnboundedError
from linear.solver_worlds import random_world

MODELS = [LinearQRM, LinearERM, LinearVREx, LinearIRM]
GROUPS = np.repeat([0, 1, 2], 10)


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((30, 3))
    return X, X @ [1.0, 2.0, 3.0] + generator.standard_normal(30)


@pytest.mark.parametrize("law", ["kde", "gaussian"])
def test_a_quantile_without_a_minimum_is_refused(law: str) -> None:
    """One domain in 20 is 1000 times the others: below ½ its spread pays without end."""
    scale = np.ones(20)
    scale[0] = 1000.0
    covariance = [[[s, 0.0], [0.0, 1.0]] for s in scale]
    moments = DomainMoments.population(np.zeros((20, 2)), covariance)
    with pytest.raises(UnboundedError, match=r"no minimum.*at least 0\.5"):
        LinearQRM(0.25, law).fit(moments)
    assert LinearQRM(0.25, "empirical").fit(moments).converged_
    assert LinearQRM(0.5, law).fit(moments).converged_
    assert LinearQRM(0.25, law, "superquantile").fit(moments).converged_


def test_refused_is_exactly_what_falls_without_end() -> None:
    """In one parameter the objective falls without end if and only if q(A_e) < 0."""
    generator = np.random.default_rng(0)
    seen = set()
    for _ in range(30):
        scale = np.exp(generator.normal(0.0, 1.3, size=25))
        moments = DomainMoments.population(
            np.zeros((25, 2)), [[[s, 0.3 * s], [0.3 * s, s]] for s in scale]
        )
        lowest = float(eqrm.Gaussian(torch.from_numpy(scale)).quantile(0.3))
        seen.add(lowest < 0.0)
        model = LinearQRM(0.3, "gaussian", fit_intercept=False)
        if lowest < 0.0:
            with pytest.raises(UnboundedError):
                model.fit(moments)
        else:
            model.fit(moments)
    assert seen == {True, False}


def test_one_domain_is_too_few_for_a_law_of_risks() -> None:
    X, y = table()
    one = np.zeros(30, dtype=int)
    for model in MODELS:
        if model is LinearERM:
            assert model().fit(X, y, one).converged_
            continue
        with pytest.raises(DomainDataError, match="At least 2 domains are needed, got 1"):
            model().fit(X, y, one)


@pytest.mark.parametrize("model", [LinearQRM, LinearERM])
def test_collinear_and_constant_columns_are_named_unless_there_is_a_penalty(model: type) -> None:
    X, y = table()
    dependent = np.column_stack([X, X[:, 0]])
    for intercept in (True, False):
        with pytest.raises(DomainDataError, match=r"'x1', 'x4' are linearly dependent.*l2"):
            model(fit_intercept=intercept).fit(dependent, y, GROUPS)
    twice = model(l2=0.1).fit(dependent, y, GROUPS)
    assert twice.coef_[0] == pytest.approx(float(twice.coef_[3]), rel=1e-5)
    constant = np.column_stack([X, np.full(30, 7.0)])
    with pytest.raises(DomainDataError, match="'x4' is constant"):
        model().fit(constant, y, GROUPS)
    assert model(fit_intercept=False).fit(constant, y, GROUPS).converged_


def test_levels_that_a_law_does_not_have_are_refused() -> None:
    for law in ("kde", "gaussian"):
        for level in (0.0, 1.0):
            with pytest.raises(LevelError, match="Empirical"):
                LinearQRM(level, law).fit(random_world(5, 2))
    assert LinearQRM(1.0, "empirical").fit(random_world(5, 2)).converged_
    assert LinearQRM(0.0, "empirical").fit(random_world(5, 2)).converged_


def test_wrong_uses_say_what_is_needed() -> None:
    X, y = table()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        LinearQRM().predict(X)
    with pytest.raises(SettingError, match=r"rows of 4 finite numbers each \(coefficients, then"):
        LinearQRM(starts=[[1.0, 2.0]]).fit(X, y, GROUPS)
    with pytest.raises(SettingError, match="hold the target"):
        LinearQRM().fit(random_world(3, 2), y)
    with pytest.raises(DomainDataError, match="no rows to count"):
        LinearERM("rows").fit(random_world(3, 2))
    with pytest.raises(DomainDataError, match=r"a name per row.*got 3\.5"):
        LinearQRM().fit(X, y, 3.5)
    with pytest.raises(SettingError, match=r"a list of levels, got 0\.9"):
        LinearQRM().path(0.9, X, y, GROUPS)


def test_a_search_that_is_cut_short_says_so() -> None:
    with pytest.warns(NotConvergedWarning, match="max_steps"):
        model = LinearQRM(Level(log_tail=-1000), starts=1, max_steps=1).fit(random_world(20, 3))
    assert not model.converged_


def test_a_perfect_fit_is_no_problem() -> None:
    X, _ = table()
    for model in MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = model().fit(X, X @ [1.0, 2.0, 3.0] + 4.0, GROUPS)
        np.testing.assert_allclose(fitted.coef_, [1.0, 2.0, 3.0], atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distribution": "gausian"}, "Did you mean 'gaussian'"),
        ({"measure": "superquantil"}, "Did you mean 'superquantile'"),
        ({"l2": -1.0}, "l2 must be a number of at least 0, got -1.0"),
        ({"starts": 0}, "starts must be an integer of at least 1"),
        ({"starts": [[np.nan] * 4]}, "rows of 4 finite numbers"),
        ({"starts": [[1e300] * 4]}, "exceeds the range of float64 at every start"),
        ({"alpha": "1-e^-1e30", "distribution": "lognormal"}, "exceeds the range of float64"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_words(settings: dict, message: str) -> None:
    X, y = table()
    with pytest.raises(SettingError, match=message):
        LinearQRM(**settings).fit(X, y, GROUPS)
