"""The coloured digits: what is real, what is generated, and what they are there to show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from eqrm.data import Table, coloured_digits
from eqrm.errors import SettingError
from eqrm.tabular.comparison import compare_training
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.training import train_on_table
from eqrm.tabular.wording import choices_in_words, in_words

PAGES = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def digits() -> Table:
    return coloured_digits()


def test_every_real_digit_is_used_once_with_its_own_label(digits: Table) -> None:
    pixels, shown = load_digits(return_X_y=True)
    expected = PCA(20, svd_solver="full").fit_transform(pixels)
    found = np.column_stack([digits.columns[f"component_{k:02d}"] for k in range(1, 21)])
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-8)
    np.testing.assert_array_equal(digits.target, shown >= 5)
    sizes = np.unique(digits.domains, return_counts=True)[1]
    assert (len(sizes), sizes.min(), sizes.max()) == (60, 29, 30)


def test_the_colour_is_reversed_in_one_source_of_five(digits: Table) -> None:
    agrees = digits.columns["colour"] == digits.target
    shares = np.array([agrees[digits.domains == name].mean() for name in digits.domain_names])
    assert np.sum(shares < 0.5) == 12
    assert shares[shares < 0.5].max() < 0.3
    assert shares[shares > 0.5].min() > 0.7


def test_the_same_seed_gives_the_same_table_and_another_one_another(digits: Table) -> None:
    again, other = coloured_digits(seed=0), coloured_digits(seed=1)
    np.testing.assert_array_equal(again.domains, digits.domains)
    np.testing.assert_array_equal(again.columns["colour"], digits.columns["colour"])
    assert not np.array_equal(other.domains, digits.domains)
    with pytest.raises(SettingError, match="seed"):
        coloured_digits(seed=-1)


def test_the_pages_show_what_is_printed_on_the_coloured_digits(digits: Table) -> None:
    training = train_on_table(*digits.split(0.5, 0), TrainingPlan.of())
    compared = compare_training(training)
    printed = in_words(training, compared).split("\n\n")
    first = "\n\n".join(printed[:3])
    assert "14.2% below that of 'ERM recalibrated for 0.9'" in first.replace("\n", " ")
    assert "ERM recalibrated for 0.9" in first
    assert first in (PAGES / "README.md").read_text(encoding="utf-8")
    page = (PAGES / "docs" / "train.md").read_text(encoding="utf-8")
    assert printed[4] in page
    assert choices_in_words(compared) in page
