"""LightGBM's model format, checked and written again from what was checked."""

from __future__ import annotations

import re
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

LARGEST = 2**31 - 1
LARGEST_THRESHOLD = 1e308
"""What LightGBM reads in place of an infinite one."""
OF_SPLITS = ("split_gain", "threshold", "internal_value", "internal_weight")
OF_LEAVES = ("leaf_value", "leaf_weight", "leaf_const")
COUNTS = {"leaf_count": 0, "internal_count": 1}
"""Counts of rows, and how many fewer of them than leaves there are."""
NEEDED = frozenset({"num_leaves", "num_cat", "split_feature", "threshold", "decision_type"}) | {
    "left_child",
    "right_child",
    "leaf_value",
    "shrinkage",
}
KNOWN = NEEDED | {*OF_SPLITS, *OF_LEAVES, *COUNTS, "cat_boundaries", "cat_threshold"}
KNOWN |= {"is_linear", "num_features", "leaf_features", "leaf_coeff"}
_NUMBER = r"-?[0-9.]{1,30}(e[-+]?[0-9]{1,3})?"
_RANGE = re.compile(rf"none|\[{_NUMBER}:{_NUMBER}\]|-?[0-9]{{1,10}}(:-?[0-9]{{1,10}})*")
"""What LightGBM writes of a feature's values in training."""


def checked_lightgbm(content: bytes, features: int, outputs: int) -> str:
    """A booster as LightGBM wrote it, for this many features and outputs; else ``ValueError``.

    Every index, size and number that LightGBM follows is checked. Its parameters, which have no
    part in predictions, are left out.
    """
    text = content.decode("ascii")
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    if not text.startswith("tree\n") or "\nend of trees" not in text:
        raise ValueError("its booster is not one of LightGBM")
    given = _pairs(head)
    expected = {"num_class": outputs, "num_tree_per_iteration": outputs}
    expected |= {"label_index": 0, "max_feature_idx": features - 1}
    for name, value in expected.items():
        if given.get(name) != str(value):
            raise ValueError(f"its {name!r} is {given.get(name)!r}, not {value}")
    ranges = given.get("feature_infos", "").split()
    check_sizes({"feature_infos": len(ranges)}, features)
    odd = not all(_RANGE.fullmatch(each) for each in ranges)
    if odd or "average_output" in given or not re.fullmatch("v[0-9]", given.get("version", "")):
        raise ValueError("its booster has a header that this version does not know")
    if len(blocks) % outputs:
        raise ValueError(f"it has {len(blocks)} trees, not a multiple of {outputs}")
    trees = [f"Tree={i}\n{_checked_tree(b, i, features)}\n\n" for i, b in enumerate(blocks)]
    lines = ["tree", f"version={given['version']}"]
    lines += [f"{name}={value}" for name, value in expected.items()]
    lines.append("feature_names=" + " ".join(f"Column_{i}" for i in range(features)))
    lines.append("feature_infos=" + " ".join(ranges))
    lines.append("tree_sizes=" + " ".join(str(len(tree)) for tree in trees))
    ending = "end of trees\n\npandas_categorical:null\n"
    return "\n".join(lines) + "\n\n" + "".join(trees) + ending


def joined_lightgbm(first: str, second: str) -> str:
    """Two boosters as one, with the trees of the second after those of the first; not checked."""
    parts = [text.partition("\nend of trees")[0].split("\nTree=") for text in (first, second)]
    trees = [block.partition("\n")[2].rstrip() for _, *blocks in parts for block in blocks]
    numbered = [f"Tree={number}\n{tree}\n\n" for number, tree in enumerate(trees)]
    sizes = "tree_sizes=" + " ".join(str(len(tree)) for tree in numbered)
    head = re.sub("^tree_sizes=.*$", sizes, parts[0][0].rstrip(), flags=re.MULTILINE)
    return f"{head}\n\n{''.join(numbered)}end of trees\n\npandas_categorical:null\n"


def _pairs(text: str) -> dict[str, str]:
    """The lines ``key=value``; a line without a value is a key of its own."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition("=")
        if key in found and key:
            raise ValueError(f"its booster has {key!r} twice")
        found[key] = value
    return found


def _checked_tree(block: str, number: int, features: int) -> str:
    """One tree as text again."""
    first, _, rest = block.partition("\n")
    tree = _pairs(rest)
    tree.pop("", None)
    refuse_other_keys(tree, KNOWN, NEEDED)
    if first != str(number):
        raise ValueError(f"its tree {number} has another number")
    leaves = int(_integers(tree, "num_leaves", 1, LARGEST)[0])
    splits = leaves - 1
    kept: dict[str, NDArray[Any]] = {
        "split_feature": _integers(tree, "split_feature", 0, features - 1),
        "decision_type": _integers(tree, "decision_type", 0, 11),
    }
    for child in ("left_child", "right_child"):
        kept[child] = _integers(tree, child, -leaves, max(0, splits - 1))
    kept |= {name: _floats(tree, name) for name in OF_SPLITS if name in tree}
    check_sizes({name: len(array) for name, array in kept.items()}, splits)
    _check_children(kept["left_child"], kept["right_child"])
    for name in OF_LEAVES:
        if name in tree and not (splits == 0 and name == "leaf_weight"):
            kept[name] = _floats(tree, name)
            check_sizes({name: len(kept[name])}, leaves)
    for name, fewer in COUNTS.items():
        if tree.get(name) and splits:
            kept[name] = _integers(tree, name, 0, LARGEST)
            check_sizes({name: len(kept[name])}, leaves - fewer)
    categories = _checked_categories(tree, kept["decision_type"], kept["threshold"])
    lines = {name: _text(array) for name, array in (kept | categories).items()}
    single = {
        "num_leaves": str(leaves),
        "num_cat": str(max(0, len(categories.get("cat_boundaries", ())) - 1)),
    }
    shrinkage = _floats(tree, "shrinkage")
    check_sizes({"shrinkage": len(shrinkage)}, 1)
    lines = single | lines | _checked_linear(tree, leaves, features)
    return "\n".join(f"{k}={v}" for k, v in (lines | {"shrinkage": _text(shrinkage)}).items())


def _check_children(left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Splits and leaves (−1 is leaf 0, −2 leaf 1 …) must be one tree, all of them in it."""
    splits = len(left)
    nodes = np.full((2, 2 * splits + 1), -1)
    for side, children in zip(nodes, (left, right), strict=True):
        side[:splits] = np.where(children < 0, splits - 1 - children, children)
    if not check_links(*nodes).all():
        raise ValueError("a tree in it has a node without a parent")


def _checked_categories(
    tree: dict[str, str], kinds: NDArray[np.int64], thresholds: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Sets of categories as bits: where each begins, and the words."""
    count = int(_integers(tree, "num_cat", 0, LARGEST)[0])
    if not count:
        if (kinds & 1).any():
            raise ValueError("a tree in it splits by categories that it does not have")
        return {}
    words = _integers(tree, "cat_threshold", 0, 2**32 - 1)
    starts = _integers(tree, "cat_boundaries", 0, len(words))
    check_sizes({"cat_boundaries": len(starts)}, count + 1)
    if starts[0] != 0 or starts[-1] != len(words) or (np.diff(starts) < 1).any():
        raise ValueError("its 'cat_boundaries' do not begin and end with 'cat_threshold'")
    if not np.isin(thresholds[(kinds & 1) == 1], np.arange(count)).all():
        raise ValueError("a tree in it splits by categories that it does not have")
    return {"cat_boundaries": starts, "cat_threshold": words}


def _checked_linear(tree: dict[str, str], leaves: int, features: int) -> dict[str, str]:
    """The linear models in leaves, of some features each."""
    if tree.get("is_linear", "0") == "0":
        return {"is_linear": "0"}
    counts = _integers(tree, "num_features", 0, features)
    used = _integers(tree, "leaf_features", 0, features - 1)
    slopes = _floats(tree, "leaf_coeff")
    check_sizes({"num_features": len(counts)}, leaves)
    check_sizes({"leaf_features": len(used), "leaf_coeff": len(slopes)}, int(counts.sum()))
    if tree["is_linear"] != "1" or "leaf_const" not in tree:
        raise ValueError("a tree in it has linear leaves without a constant")
    ends = np.cumsum(counts)[:-1]
    parts = {"leaf_features": np.split(used, ends), "leaf_coeff": np.split(slopes, ends)}
    lines = {
        name: "".join("".join(f"{_text(part)} " if len(part) else "") + " " for part in arrays)
        for name, arrays in parts.items()
    }
    return {"is_linear": "1", "num_features": _text(counts), **lines}


def _integers(tree: dict[str, str], name: str, least: int, most: int) -> NDArray[np.int64]:
    found = np.array([int(token) for token in tree.get(name, "").split()], np.int64)
    if name.startswith("num_") and name != "num_features":
        check_sizes({name: len(found)}, 1)
    return checked_integers(found, least, most, name)


def _floats(tree: dict[str, str], name: str) -> NDArray[Any]:
    found = np.array([float(token) for token in tree.get(name, "").split()], np.float64)
    if name == "threshold":  # infinite where only missing values go to the right
        found = np.where(np.isinf(found), np.copysign(LARGEST_THRESHOLD, found), found)
    check_finite(found, name)
    return found


def _text(values: NDArray[Any]) -> str:
    return " ".join(map(repr, values.tolist()))
