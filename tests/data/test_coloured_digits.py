"""The coloured digits: what is real, what is generated, and what they are there to show."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from eqrm.data import Table, coloured_digits
from eqrm.errors import SettingError


@pytest.fixture(scope="module")
def digits() -> Table:
    return coloured_digits()


def test_every_row_is_a_real_digit_and_one_label_in_five_is_wrong(digits: Table) -> None:
    pixels, shown = load_digits(return_X_y=True)
    expected = np.abs(PCA(20, svd_solver="full").fit_transform(pixels))
    found = np.abs(np.column_stack([digits.columns[f"component_{k:02d}"] for k in range(1, 21)]))
    distance, place = cKDTree(expected).query(found)
    assert distance.max() < 1e-6
    times = np.bincount(place, minlength=len(shown))
    assert set(times.tolist()) == {3, 4}  # 6,000 rows of 1,797 digits
    wrong = digits.target != (shown[place] >= 5)
    assert wrong.mean() == pytest.approx(0.2, abs=0.02)
    sizes = np.unique(digits.domains, return_counts=True)[1]
    assert (len(sizes), sizes.min(), sizes.max()) == (60, 100, 100)


def test_the_colour_is_reversed_in_one_source_of_five(digits: Table) -> None:
    agrees = digits.columns["colour"] == digits.target
    shares = np.array([agrees[digits.domains == name].mean() for name in digits.domain_names])
    assert np.sum(shares < 0.5) == 12
    assert shares[shares < 0.5].max() < 0.4
    assert shares[shares > 0.5].min() > 0.6


def test_the_same_seed_gives_the_same_table_and_another_one_another(digits: Table) -> None:
    again, other = coloured_digits(seed=0), coloured_digits(seed=1)
    for name in ("component_01", "colour"):
        np.testing.assert_array_equal(again.columns[name], digits.columns[name])
        assert not np.array_equal(other.columns[name], digits.columns[name])
    np.testing.assert_array_equal(again.target, digits.target)
    with pytest.raises(SettingError, match="seed"):
        coloured_digits(seed=-1)
