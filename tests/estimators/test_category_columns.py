"""Category columns of frames: boosting splits by their values, wherever these come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import eqrm
from eqrm.errors import DataFileError, DomainDataError, EqrmWarning
from eqrm.estimators import load_model, save_model
from eqrm.estimators.boosting.category_columns import learned_categories
from estimators.worlds import change_booster, forged, in_first_tree

MODELS = {"xgboost": eqrm.XGBQRMRegressor, "lightgbm": eqrm.LGBMQRMRegressor}
CITIES = [f"city {number}" for number in range(12)]
GOOD = [1, 5, 7]


def world() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """30 days; the target is higher in three cities that are not neighbours in any order."""
    rng = np.random.default_rng(0)
    codes, days = rng.integers(0, len(CITIES), 3000), np.repeat(np.arange(30), 100)
    frame = pd.DataFrame(
        {"x": rng.normal(size=3000), "city": pd.Categorical.from_codes(codes, CITIES)}
    )
    frame.loc[::70, "city"] = np.nan
    y = 2.0 * np.isin(codes, GOOD) + frame["x"].to_numpy() + rng.normal(size=30)[days]
    return frame, y, days


def fitted(name: str, frame: Any = None) -> Any:
    known, y, days = world()
    return MODELS[name](0.9, n_estimators=10, max_depth=3).fit(
        known if frame is None else frame, y, groups=days
    )


@pytest.mark.parametrize("name", MODELS)
def test_two_groups_of_categories_take_one_split(name: str) -> None:
    frame, y, days = world()
    stump = MODELS[name](0.9, n_estimators=1, max_depth=1, learning_rate=1.0)
    predicted = stump.fit(frame[["city"]], y, groups=days).predict(frame[["city"]])
    of_city = pd.Series(predicted).groupby(frame["city"], observed=True).first()
    assert of_city.nunique() == 2
    assert set(np.flatnonzero(of_city == of_city.max())) == set(GOOD)


OTHER_FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "strings": lambda frame: frame.astype({"city": object}),
    "another order": lambda frame: frame.assign(
        city=frame["city"].cat.reorder_categories(CITIES[::-1])
    ),
    "another order of columns": lambda frame: frame[["x", "city"]],
    "polars": pl.from_pandas,
}


@pytest.mark.parametrize("kind", OTHER_FRAMES)
@pytest.mark.parametrize("name", MODELS)
def test_categories_are_found_by_their_names(name: str, kind: str) -> None:
    frame = world()[0]
    model = fitted(name)
    np.testing.assert_array_equal(model.predict(OTHER_FRAMES[kind](frame)), model.predict(frame))


@pytest.mark.parametrize("name", MODELS)
def test_polars_frames_can_be_trained_on(name: str) -> None:
    frame = world()[0]
    kinds = [pl.Enum(CITIES), pl.Categorical]
    models = [
        fitted(name, pl.from_pandas(frame).with_columns(pl.col("city").cast(k))) for k in kinds
    ]
    expected = fitted(name).predict(frame)
    assert models[0].categories_ == {"city": tuple(CITIES)}
    assert models[1].categories_ == {"city": tuple(sorted(CITIES))}
    np.testing.assert_array_equal(models[0].predict(frame), expected)
    np.testing.assert_allclose(models[1].predict(frame), expected, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_category_that_training_has_not_seen_is_missing(name: str) -> None:
    frame, model = world()[0].iloc[:50], fitted(name)
    missing = model.predict(frame.assign(city=None))
    with pytest.warns(EqrmWarning, match="No value of column 'city' is one of its 12 categories"):
        unknown = model.predict(frame.assign(city="nowhere"))
    np.testing.assert_array_equal(unknown, missing)
    assert not np.array_equal(missing, model.predict(frame))


@pytest.mark.parametrize("name", MODELS)
def test_rows_without_names_are_refused(name: str) -> None:
    frame, model = world()[0], fitted(name)
    with pytest.raises(DomainDataError, match="X has no column 'city'"):
        model.predict(frame.to_numpy())
    with pytest.raises(DomainDataError, match="X has no column 'city'"):
        model.predict(frame[["x"]])


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_knows_its_categories(name: str, tmp_path: Path) -> None:
    frame, model = world()[0], fitted(name)
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.categories_ == model.categories_
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_columns_must_have_names() -> None:
    with pytest.raises(DomainDataError, match="named by strings, got 7"):
        learned_categories(pd.DataFrame({7: pd.Categorical(["a"])}))


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a category that there is not": lambda tree: tree["categories"].__setitem__(0, 12),
    "a node that there is not": lambda tree: tree["categories_nodes"].__setitem__(0, 9999),
    "a set that is too long": lambda tree: tree["categories_sizes"].__setitem__(0, 99),
    "a set elsewhere": lambda tree: tree["categories_segments"].__setitem__(0, 1),
    "no set": lambda tree: tree.update(categories=[]),
    "a number that is split by category": lambda tree: tree["split_type"].__setitem__(-1, 1),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_forged_sets_of_categories_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(fitted("xgboost"), path)
    forged(path, lambda state: change_booster(state, in_first_tree(FORGERIES[kind])))
    with pytest.raises(DataFileError):
        load_model(path)
