"""LightGBM: EQRM as an objective for its training call, as estimators, and its trees in files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.boosting.estimators import BoostedQRM
from eqrm.estimators.boosting.objective import BoostingObjective
from eqrm.estimators.boosting.rounds import Boosting
from eqrm.estimators.boosting.tree_checks import (
    check_finite,
    check_links,
    check_sizes,
    checked_integers,
    refuse_other_keys,
)
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.tasks import Classification, Regression
from eqrm.linear.solving.risk_functions import Array


class LightGBMObjective(BoostingObjective):
    """EQRM as a custom objective for ``lightgbm.train``.

    Pass it as the parameter ``objective`` and its :meth:`metric` as ``feval``. ``domains`` maps
    every ``Dataset`` that is trained on or evaluated to the domain of each of its rows; the other
    parameters are those of :class:`eqrm.estimators.xgboost_objective`. Margins start at 0 unless
    the datasets have an ``init_score``.
    """

    package = "lightgbm"
    after_value = (False,)  # not the higher the better

    def __deepcopy__(self, memo: dict[int, Any]) -> LightGBMObjective:
        """LightGBM copies its parameters; a copy of this would not know the datasets."""
        return self


lightgbm_objective = LightGBMObjective
"""Its public name: it is called like a function."""


@dataclass(eq=False, repr=False, kw_only=True)
class LGBMQRM(BoostedQRM):
    """The adapter of LightGBM."""

    num_leaves: int | None = None
    min_child_samples: int | None = None
    subsample_freq: int | None = None

    _objective: ClassVar[type[BoostingObjective]] = LightGBMObjective
    _refusal: ClassVar[str] = "basic.LightGBMError"
    _passed_on: ClassVar[tuple[str, ...]] = (
        *BoostedQRM._passed_on,
        "num_leaves",
        "min_child_samples",
        "subsample_freq",
    )
    _defaults: ClassVar[Mapping[str, Any]] = {"verbosity": -1}
    _fixed: ClassVar[Mapping[str, Any]] = {"metric": "none"}

    def _dataset(self, library: Any, rows: TrainingRows, start: Array, reference: Any) -> Any:
        categories = np.flatnonzero(self._category_counts).tolist()
        return library.Dataset(
            rows.X,
            rows.y,
            weight=rows.sample_weight,
            init_score=start.astype(np.float64),
            reference=reference,
            categorical_feature=categories if self.categories_ else "auto",
            params={"verbosity": -1, "feature_pre_filter": False},
        )

    def _train(
        self, library: Any, boosting: Boosting, first: Any = None, margins: Array | None = None
    ) -> Any:
        if first is not None:
            boosting.train.set_init_score(margins)

        def stop(now: Any) -> None:
            if boosting.over():
                raise library.callback.EarlyStopException(now.iteration, now.evaluation_result_list)

        callbacks = [*(self.callbacks or []), stop]
        if self.verbose:
            callbacks.append(library.log_evaluation(self.verbose))
        watched = boosting.validation is not None
        booster = library.train(
            {**self._parameters(), "objective": boosting.objective},
            boosting.train,
            num_boost_round=boosting.rounds,
            valid_sets=[boosting.validation] if watched else [],
            valid_names=["validation"] if watched else None,
            feval=boosting.metric if watched else None,
            callbacks=callbacks,
            keep_training_booster=True,
        )

        def keep(margins: NDArray[Any], data: Any) -> tuple[str, float, bool]:
            boosting.margins = margins
            return "kept", 0.0, False

        booster.eval_train(keep)  # they are known, and a prediction takes long
        if first is None:
            return booster
        text = joined_lightgbm(first.model_to_string(), booster.model_to_string())
        return self._booster_of(library, text.encode())

    def _kept(self, library: Any, booster: Any, rounds: int | None) -> tuple[Any, int]:
        if rounds is None and booster.best_iteration > 0:  # by a callback
            rounds = booster.best_iteration
        kept = library.Booster(model_str=booster.model_to_string(num_iteration=rounds))
        return kept, kept.current_iteration()

    def _margins_of(self, X: Array) -> NDArray[Any]:
        return np.asarray(self.booster_.predict(X, raw_score=True))

    def _booster_bytes(self) -> bytes:
        return str(self.booster_.model_to_string()).encode()

    def _checked_booster(self, content: bytes, outputs: int) -> bytes:
        return checked_lightgbm(content, self.n_features_in_, outputs).encode()

    def _booster_of(self, library: Any, content: bytes) -> Any:
        return library.Booster(model_str=content.decode())


class LGBMQRMClassifier(Classification, LGBMQRM):
    """LightGBM for two or more classes; minimises the α-quantile of the log-loss over domains.

    Args:
        num_leaves, min_child_samples, subsample_freq: LightGBM's own, and so are learning_rate,
            max_depth, min_child_weight, subsample, colsample_bytree, reg_alpha and reg_lambda;
            ``None`` leaves its default.
        booster_params: any other parameter of LightGBM, by name.
        callbacks, n_jobs, verbose: as in LightGBM.

    All other parameters, and the attributes after ``fit``, are those of
    :class:`eqrm.XGBQRMClassifier`.
    """


class LGBMQRMRegressor(Regression, LGBMQRM):
    """LightGBM for regression; minimises the α-quantile of the squared error over domains.

    Parameters and attributes are those of :class:`eqrm.LGBMQRMClassifier`.
    """


LARGEST = 2**31 - 1
LARGEST_THRESHOLD = 1e308
"""What LightGBM reads in place of an infinite one."""
OF_SPLITS = ("split_gain", "threshold", "internal_value", "internal_weight")
OF_LEAVES = ("leaf_value", "leaf_weight")
COUNTS = {"leaf_count": 0, "internal_count": 1}
"""Counts of rows, and how many fewer of them than leaves there are."""
NEEDED = frozenset({"num_leaves", "num_cat", "split_feature", "threshold", "decision_type"}) | {
    "left_child",
    "right_child",
    "leaf_value",
    "shrinkage",
}
KNOWN = NEEDED | {*OF_SPLITS, *OF_LEAVES, *COUNTS, "cat_boundaries", "cat_threshold", "is_linear"}
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
    if tree.get("is_linear", "0") != "0":
        raise ValueError("its trees have linear leaves")
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
    lines = single | lines | {"is_linear": "0"}
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


def _integers(tree: dict[str, str], name: str, least: int, most: int) -> NDArray[np.int64]:
    found = np.array([int(token) for token in tree.get(name, "").split()], np.int64)
    if name.startswith("num_"):
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
