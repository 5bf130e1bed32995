"""Boosters in forged model files, with a digest that matches: refused or read, never a crash.

The parsers of XGBoost and LightGBM follow any index that they are given: before the trees were
checked here, one changed bit in seven ended the process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqrm import (
    LGBMQRMClassifier,
    LGBMQRMRegressor,
    XGBQRMClassifier,
    XGBQRMRegressor,
    load_model,
    save_model,
)
from eqrm.errors import DataFileError
from eqrm.estimators.boosting.tree_checks import DEEPEST, check_links
from estimators.worlds import change_booster, forged, in_first_tree

# Models are fitted once, by whichever test comes first.
pytestmark = pytest.mark.filterwarnings("ignore:categorical_feature keyword")

SMALL: dict[str, Any] = {"alpha": 0.9, "n_estimators": 3, "n_jobs": 1}
MODELS: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: XGBQRMClassifier(max_depth=3, **SMALL),
    "xgboost numbers": lambda: XGBQRMRegressor(max_depth=2, **SMALL),
    "dart": lambda: XGBQRMClassifier(booster_params={"booster": "dart", "rate_drop": 0.5}, **SMALL),
    "pruned": lambda: XGBQRMClassifier(booster_params={"tree_method": "exact"}, gamma=9.0, **SMALL),
    "parallel": lambda: XGBQRMClassifier(booster_params={"num_parallel_tree": 2}, **SMALL),
    "lightgbm": lambda: LGBMQRMClassifier(num_leaves=5, **SMALL),
    "stumps": lambda: LGBMQRMRegressor(min_child_samples=400, **SMALL),
    "categories": lambda: LGBMQRMRegressor(booster_params={"categorical_feature": [2]}, **SMALL),
}


@lru_cache
def world() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(600, 4)), np.repeat(np.arange(20), 30)
    X[:, 2] = rng.integers(0, 9, 600)
    y = (X[:, 0] + rng.normal(size=20)[domains] > 0).astype(int) + (X[:, 2] % 3 == 0)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y, domains


@lru_cache
def fitted(name: str) -> Any:
    X, y, domains = world()
    return MODELS[name]().fit(X, y, groups=domains)


def forged_booster(path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A model file with another booster."""
    save_model(fitted(name), path)
    forged(path, lambda state: change_booster(state, change))
    return path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_booster_of_any_kind_is_saved_and_predicts_the_same(name: str, tmp_path: Path) -> None:
    model, X = fitted(name), world()[0]
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again._scores(X), model._scores(X))
    if isinstance(model, XGBQRMClassifier):  # nothing differs from what XGBoost wrote
        assert json.loads(again._booster_bytes()) == json.loads(model._booster_bytes())
    save_model(again, tmp_path / "again.safetensors")
    assert load_model(tmp_path / "again.safetensors").booster_ is not None


def test_trees_with_more_in_a_leaf_than_a_value_are_not_saved(tmp_path: Path) -> None:
    X, y, domains = world()
    several = {"multi_strategy": "multi_output_tree"}
    for model in (
        XGBQRMClassifier(booster_params=several, **SMALL),
        LGBMQRMRegressor(booster_params={"linear_tree": True}, **SMALL),
    ):
        with pytest.raises(ValueError, match="cannot be saved"):
            save_model(model.fit(X, y, groups=domains), tmp_path / "m.safetensors")


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_no_changed_bit_crashes_or_gives_a_number_that_is_none(name: str, tmp_path: Path) -> None:
    rng, X, refused = np.random.default_rng(1), world()[0][:20], 0
    for _ in range(12):

        def flip(booster: bytes) -> bytes:
            changed = bytearray(booster)
            changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
            return bytes(changed)

        try:
            model = load_model(forged_booster(tmp_path / "m.safetensors", name, flip))
        except DataFileError:
            refused += 1
        else:
            assert np.isfinite(model._scores(X)).all()
    assert refused > 0  # what a library takes differs between its versions


def of_tree(name: str, place: int, value: Any) -> Callable[[bytes], bytes]:
    """Another number in an array of XGBoost's first tree."""
    return in_first_tree(lambda tree: tree[name].__setitem__(place, value))


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    return lambda booster: booster.replace(old.encode(), new.encode(), 1)


FORGERIES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("xgboost", of_tree("left_children", 0, 0), "two parents"),
    ("xgboost", of_tree("right_children", 1, 10**6), "does not exist"),
    ("xgboost", of_tree("left_children", 1, -1), "without a parent"),
    ("xgboost", of_tree("split_indices", 0, 4), "integer from 0 to 3"),
    ("xgboost", of_tree("split_conditions", -1, np.nan), "without a value"),
    ("xgboost", of_tree("parents", 1, 1), "parents"),
    ("xgboost", of_tree("split_type", 0, 1), "category"),
    ("xgboost", in_first_tree(lambda tree: tree.pop("default_left")), "incomplete"),
    ("xgboost", of_tree("base_weights", 0, "1.0"), "not numbers"),
    ("xgboost", lambda booster: booster[:-1], "Expecting"),
    ("xgboost", lambda booster: b"[" * 100_000, "recursion"),
    ("xgboost", lambda booster: b'{"learner": 3}', "not one of XGBoost"),
    ("lightgbm", replaced("left_child=1", "left_child=0"), "two parents"),
    ("lightgbm", replaced("left_child=", "left_child=99 "), "integer from -5 to 3"),
    ("lightgbm", replaced("num_leaves=5", "num_leaves=2000000000"), "needs 1,999,999,999"),
    ("lightgbm", replaced("max_feature_idx=3", "max_feature_idx=2000000"), "max_feature_idx"),
    ("lightgbm", replaced("split_feature=", "split_feature=7 "), "integer from 0 to 3"),
    ("lightgbm", replaced("threshold=", "threshold=nan "), "not finite"),
    ("lightgbm", replaced("shrinkage", "split_secret"), "incomplete"),
    ("lightgbm", replaced("shrinkage", "other=1\nshrinkage"), "does not know"),
    ("lightgbm", replaced("Tree=1", "Tree=7"), "another number"),
    ("lightgbm", replaced("end of trees", "end"), "not one of LightGBM"),
    ("categories", replaced("cat_boundaries=0", "cat_boundaries=1"), "cat_boundaries"),
    ("categories", replaced("num_cat=", "num_cat=1"), "cat_boundaries"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), FORGERIES)
def test_forged_trees_are_refused_with_the_reason(
    name: str, change: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataFileError, match=words):
        load_model(forged_booster(tmp_path / "m.safetensors", name, change))


def test_a_circle_and_a_tree_that_is_too_deep_are_refused() -> None:
    with pytest.raises(ValueError, match="two parents"):
        check_links(np.array([1, 2, 1, -1, -1, -1]), np.array([3, 4, 5, -1, -1, -1]))
    chain = np.arange(1, 2 * DEEPEST + 3, 2)
    left, right = np.full((2, 2 * DEEPEST + 3), -1)
    left[0], right[0] = chain[0], chain[0] + 1
    left[chain[:-1]], right[chain[:-1]] = chain[1:], chain[1:] + 1
    with pytest.raises(ValueError, match="deeper"):
        check_links(left, right)
