"""Losses of margins: values and derivatives against float64 formulas and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.boosting.losses import BLOCK, BoostingLoss, boosting_loss

STEP = 1e-3


def exact_losses(name: str, margins: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same losses in float64, written as in a textbook."""
    if name == "squared":
        return 0.5 * (margins - y) ** 2
    if margins.ndim == 1:
        return np.logaddexp(0.0, margins) - y * margins
    return -log_softmax(margins, axis=1)[np.arange(len(y)), y.astype(int)]


def world(name: str, classes: int, rows: int = 200) -> tuple[BoostingLoss, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.normal(size=rows) if name == "squared" else rng.integers(0, classes, rows)
    shape = (rows,) if classes <= 2 else (rows, classes)
    return boosting_loss(name, y, classes), rng.normal(0.0, 3.0, shape), y


CASES = [("log-loss", 2), ("log-loss", 3), ("log-loss", 5), ("squared", 1)]


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_slopes_and_curvatures_are_differences_of_the_loss(name: str, classes: int) -> None:
    loss, margins, y = world(name, classes)
    found = loss.derivatives(margins)
    factor = classes / (classes - 1.0) if classes > 2 else 1.0
    for output in [...] if classes <= 2 else [(slice(None), k) for k in range(classes)]:
        up, down = margins.copy(), margins.copy()
        up[output] += STEP
        down[output] -= STEP
        above, here, below = (exact_losses(name, each, y) for each in (up, margins, down))
        slope, second = (above - below) / (2 * STEP), (above - 2 * here + below) / STEP**2
        np.testing.assert_allclose(found.slopes[output], slope, atol=2e-6)
        np.testing.assert_allclose(found.curvatures[output], factor * second, atol=2e-6)


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_losses_alone_equal_those_with_derivatives_and_the_textbook(
    name: str, classes: int
) -> None:
    loss, margins, y = world(name, classes)
    scale = 2.0 if name == "squared" else 1.0  # risks are mean squared errors, not halves
    exact = scale * exact_losses(name, margins, y)
    np.testing.assert_allclose(loss.losses(margins), exact, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(loss.derivatives(margins).losses, exact, rtol=2e-6, atol=1e-7)


def test_rows_beyond_one_block_are_computed_like_the_first() -> None:
    loss, margins, y = world("log-loss", 2, rows=2 * BLOCK + 17)
    np.testing.assert_allclose(
        loss.derivatives(margins).losses, exact_losses("log-loss", margins, y), rtol=3e-6
    )


def test_certain_margins_have_exact_losses_and_positive_curvature() -> None:
    margins = np.array([1000.0, -1000.0, 100.0, -100.0])
    found = boosting_loss("log-loss", [0, 1, 1, 0]).derivatives(margins)
    np.testing.assert_allclose(found.losses, [1000.0, 1000.0, 0.0, 0.0], atol=1e-30)
    np.testing.assert_allclose(found.slopes, [1.0, -1.0, 0.0, 0.0], atol=1e-6)
    assert (found.curvatures > 0).all()


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_no_other_constant_has_a_smaller_weighted_mean_loss(name: str, classes: int) -> None:
    loss, margins, y = world(name, classes)
    weights = np.random.default_rng(1).dirichlet(np.ones(len(y)))
    best = loss.best_constant(weights)

    def mean_at(constant: np.ndarray) -> float:
        shaped = np.broadcast_to(constant if margins.ndim == 2 else constant[0], margins.shape)
        return float(weights @ exact_losses(name, shaped, y))

    for direction in np.random.default_rng(2).normal(size=(10, len(best))):
        assert mean_at(best) <= mean_at(best + 0.01 * direction)


def test_labels_that_are_no_classes_are_refused_by_value() -> None:
    with pytest.raises(DomainDataError, match="labels must be 0 to 1, got 2"):
        boosting_loss("log-loss", [0, 1, 2])
    with pytest.raises(DomainDataError, match="With num_class=3, labels must be 0 to 2, got 7"):
        boosting_loss("log-loss", [0, 1, 7], num_class=3)
    with pytest.raises(SettingError, match="Did you mean 'log-loss'"):
        boosting_loss("logloss", [0, 1])
