"""XGBoost's model format, checked and written again from what was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.boosting.tree_checks import (
    check_finite,
    check_links,
    check_sizes,
    checked_integers,
    refuse_other_keys,
)
from eqrm.files.ubjson import read_ubjson, write_ubjson

FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
INTEGERS = ("left_children", "right_children", "parents", "split_indices")
FLAGS = ("default_left", "split_type")
CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
"""Of splits by category: which go to the right, for each such node in turn."""
NEEDED = frozenset({*FLOATS, *INTEGERS, *FLAGS, *CATEGORIES, "id", "tree_param"})
DELETED = 2**31 - 1
"""What a node that was pruned has as its feature."""


def checked_xgboost(content: bytes, categories: Sequence[int], outputs: int) -> bytes:
    """A booster as XGBoost wrote it, for this many outputs; else ``ValueError``.

    ``categories`` says for each feature how many it has, 0 for a feature of numbers. Every index,
    size and number that XGBoost follows is checked. What has no part in predictions (names,
    attributes, the objective) is written as the estimators leave it.
    """
    try:
        found = read_ubjson(content)
        learner, version = found["learner"], [int(part) for part in found["version"]]
        booster = learner["gradient_booster"]
        given = learner["learner_model_param"]
        start = str(given["base_score"])
        starts = [float(part) for part in start.strip("[]").split(",")]
        if len(version) != 3 or any(starts) or len(starts) not in (1, outputs) or len(start) > 999:
            raise ValueError("its booster does not start from 0")
        kept = {
            "learner": {
                "attributes": {},
                "feature_names": [],
                "feature_types": [],
                "gradient_booster": _checked_booster(booster, categories, outputs),
                "learner_model_param": {
                    "base_score": start,
                    "boost_from_average": str(int(given["boost_from_average"])),
                    "num_class": str(outputs if outputs > 1 else 0),
                    "num_feature": str(len(categories)),
                    "num_target": "1",
                },
                "objective": _objective(outputs),
            },
            "version": version,
        }
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"its booster is not one of XGBoost ({error!r})") from None
    return write_ubjson(kept)


def _objective(outputs: int) -> dict[str, Any]:
    if outputs > 1:
        return {"name": "multi:softmax", "softmax_multiclass_param": {"num_class": str(outputs)}}
    return {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}


def _checked_booster(booster: Any, categories: Sequence[int], outputs: int) -> dict[str, Any]:
    if booster["name"] == "dart":
        inner = _checked_booster(booster["gbtree"], categories, outputs)
        weights = [float(weight) for weight in booster["weight_drop"]]
        check_finite(np.array(weights, np.float32), "weight_drop")
        check_sizes({"weight_drop": len(weights)}, len(inner["model"]["trees"]))
        return {"gbtree": inner, "name": "dart", "weight_drop": weights}
    if booster["name"] != "gbtree":
        raise ValueError("its booster has no trees")
    model = booster["model"]
    trees = [_checked_tree(t, i, categories, outputs) for i, t in enumerate(model["trees"])]
    info, rounds = np.array(model["tree_info"]), np.array(model["iteration_indptr"])
    check_sizes({"tree_info": len(info)}, len(trees))
    checked_integers(info, 0, outputs - 1, "tree_info")
    ends = checked_integers(rounds, 0, len(trees), "iteration_indptr")
    if not len(ends) or ends[0] != 0 or ends[-1] != len(trees) or (np.diff(ends) < 0).any():
        raise ValueError("its 'iteration_indptr' does not end at its last tree")
    parallel = int(model["gbtree_model_param"]["num_parallel_tree"])
    if not 0 <= parallel <= max(1, len(trees)):
        raise ValueError(f"its 'num_parallel_tree' is {parallel}")
    kept = {
        "gbtree_model_param": {"num_parallel_tree": str(parallel), "num_trees": str(len(trees))},
        "iteration_indptr": ends.tolist(),
        "tree_info": info.tolist(),
        "trees": trees,
    }
    if "cats" in model:  # since XGBoost 3.1
        none = np.zeros(0, np.int32)
        kept = {"cats": {"enc": [], "feature_segments": none, "sorted_idx": none}, **kept}
    return {"model": kept, "name": "gbtree"}


def _checked_tree(
    tree: Any, number: int, categories: Sequence[int], outputs: int
) -> dict[str, Any]:
    refuse_other_keys(tree, NEEDED | {"leaf_weights"}, NEEDED)
    arrays = {name: _floats(tree, name) for name in FLOATS}
    arrays |= {
        name: checked_integers(np.asarray(tree[name]), -1, DELETED, name) for name in INTEGERS
    }
    arrays |= {name: checked_integers(np.asarray(tree[name]), 0, 1, name) for name in FLAGS}
    nodes, per_leaf = len(arrays["left_children"]), int(tree["tree_param"]["size_leaf_vector"])
    lengths = {name: len(array) for name, array in arrays.items() if name != "base_weights"}
    check_sizes(lengths, nodes)
    check_sizes({"base_weights": len(arrays["base_weights"])}, nodes * max(1, per_leaf))
    if not nodes:
        raise ValueError("a tree in it has no nodes")
    by_category = arrays["split_type"] == 1
    arrays["split_conditions"][by_category] = 0.0  # which XGBoost has no use for
    if per_leaf not in (0, 1, outputs) or ("leaf_weights" in tree) != (per_leaf > 1):
        raise ValueError(f"its 'size_leaf_vector' is {per_leaf}")
    deleted = _check_nodes(arrays, len(categories), leaves_numbered=per_leaf > 1)
    sets = _checked_sets(tree, arrays, categories)
    if per_leaf > 1:
        arrays["leaf_weights"] = weights = _floats(tree, "leaf_weights")
        check_finite(weights, "leaf_weights")
        leaves = int((arrays["left_children"] == -1).sum())
        check_sizes({"leaf_weights": len(weights)}, leaves * per_leaf)
    kept: dict[str, Any] = {
        name: array.astype(np.uint8 if name in FLAGS else np.int32)
        if array.dtype.kind == "i"
        else array
        for name, array in arrays.items()
    }
    kept |= sets
    kept["id"] = number
    kept["tree_param"] = {
        "num_deleted": str(deleted),
        "num_feature": str(len(categories)),
        "num_nodes": str(nodes),
        "size_leaf_vector": str(per_leaf),
    }
    return dict(sorted(kept.items()))


def _checked_sets(
    tree: Any, arrays: dict[str, NDArray[Any]], categories: Sequence[int]
) -> dict[str, NDArray[Any]]:
    """The sets of categories of the nodes that split by them: those of a feature that has any."""
    found = {name: np.asarray(tree[name]) for name in CATEGORIES}
    if not any(len(array) for array in found.values()) and not arrays["split_type"].any():
        return {name: np.zeros(0, array.dtype) for name, array in found.items()}
    counts = np.asarray(categories)
    inner = arrays["left_children"] != -1
    split = np.flatnonzero(inner & (arrays["split_indices"] != DELETED))
    of_categories = split[counts[arrays["split_indices"][split]] > 0]
    given = checked_integers(found["categories_nodes"], 0, len(inner) - 1, "categories_nodes")
    flagged = np.flatnonzero(arrays["split_type"])
    if not np.array_equal(given, of_categories) or not np.array_equal(given, flagged):
        raise ValueError("a tree in it splits by category where its features have none")
    values = checked_integers(found["categories"], 0, max(categories) - 1, "categories")
    sizes = checked_integers(found["categories_sizes"], 1, len(values), "categories_sizes")
    starts = checked_integers(found["categories_segments"], 0, len(values), "categories_segments")
    check_sizes({"categories_sizes": len(sizes), "categories_segments": len(starts)}, len(given))
    if sizes.sum() != len(values) or not np.array_equal(starts, np.cumsum(sizes) - sizes):
        raise ValueError("its 'categories_segments' do not follow each other")
    if (values >= np.repeat(counts[arrays["split_indices"][given]], sizes)).any():
        raise ValueError("a tree in it splits by a category that its feature does not have")
    return {
        name: array.astype(np.int32 if name in ("categories", "categories_nodes") else np.int64)
        for name, array in found.items()
    }


def _check_nodes(arrays: dict[str, NDArray[Any]], features: int, leaves_numbered: bool) -> int:
    """How many nodes were pruned; the rest must be one tree, with features that exist."""
    left, right = arrays["left_children"], arrays["right_children"]
    feature, value = arrays["split_indices"], arrays["split_conditions"]
    leaf, deleted = left == -1, feature == DELETED
    reached = check_links(left, right)
    if (reached == deleted).any():
        raise ValueError("a tree in it has a node without a parent")
    inner = ~leaf & reached
    checked_integers(feature[inner], 0, features - 1, "split_indices")
    expected = np.arange(leaf.sum()) if leaves_numbered else np.full(leaf.sum(), -1)
    if (np.sort(right[leaf]) != expected).any() or np.isnan(value).any():
        raise ValueError("a tree in it has leaves without a value")
    check_finite(value[leaf], "split_conditions")
    parents = arrays["parents"]
    for children in (left, right):
        if (parents[children[inner]] != np.flatnonzero(inner)).any():
            raise ValueError("a tree in it has parents that do not match its children")
    return int(deleted.sum())


def _floats(holder: Any, name: str) -> NDArray[Any]:
    values = np.asarray(holder[name])
    if values.dtype != np.float32:
        raise ValueError(f"its {name!r} are not numbers of 32 bits")
    return values
