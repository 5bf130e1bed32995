"""XGBoost: EQRM as an objective for its training call, as estimators, and its trees in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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


class XGBoostObjective(BoostingObjective):
    """EQRM as a custom objective for ``xgboost.train``.

    Pass it as ``obj`` and its :meth:`metric` as ``custom_metric``. ``domains`` maps every
    ``DMatrix`` that is trained on or evaluated to the domain of each of its rows. Labels and
    weights are the matrix's own. ``alpha`` is the level; ``None`` is ERM with the same machinery,
    and any :class:`eqrm.objectives.RiskObjective` can be passed in its place. ``metric`` is
    ``"log-loss"`` (with ``num_class`` for more than two classes, labels 0 … K−1) or ``"squared"``.
    ``measure``, ``distribution`` and ``bandwidth`` are those of
    :class:`eqrm.XGBQRMClassifier`. The first ``erm_rounds`` minimise the mean risk. Set
    ``base_score`` to 0, so that margins start at 0 and all risks at ln 2.
    """

    package = "xgboost"


xgboost_objective = XGBoostObjective
"""Its public name: it is called like a function."""


@dataclass(eq=False, repr=False, kw_only=True)
class XGBQRM(BoostedQRM):
    """The adapter of XGBoost."""

    gamma: float | None = None

    _objective: ClassVar[type[BoostingObjective]] = XGBoostObjective
    _refusal: ClassVar[str] = "core.XGBoostError"
    _passed_on: ClassVar[tuple[str, ...]] = (*BoostedQRM._passed_on, "gamma")
    _defaults: ClassVar[Mapping[str, Any]] = {"disable_default_eval_metric": True}
    _fixed: ClassVar[Mapping[str, Any]] = {"base_score": 0.0}

    def _dataset(self, library: Any, rows: TrainingRows, start: Array, reference: Any) -> Any:
        kinds: dict[str, Any] = {}
        if self.categories_:
            kinds["feature_types"] = ["c" if count else "q" for count in self._category_counts]
            kinds["enable_categorical"] = True
        matrix = library.DMatrix(
            rows.X, rows.y, weight=rows.sample_weight, nthread=self.n_jobs, **kinds
        )
        matrix.set_base_margin(start.astype(np.float32))
        return matrix

    def _train(
        self, library: Any, boosting: Boosting, first: Any = None, margins: Array | None = None
    ) -> Any:
        class Stopping(library.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return boosting.over()

        watched = boosting.validation is not None
        return library.train(
            self._parameters(),
            boosting.train,
            num_boost_round=boosting.rounds,
            evals=[(boosting.validation, "validation")] if watched else [],
            obj=boosting.objective,
            custom_metric=boosting.metric if watched else None,
            verbose_eval=self.verbose or False,
            callbacks=[*(self.callbacks or []), Stopping()],
            xgb_model=first,
        )

    def _kept(self, library: Any, booster: Any, rounds: int | None) -> tuple[Any, int]:
        kept = booster if rounds is None else booster[:rounds]
        return kept, kept.num_boosted_rounds()

    def _margins_of(self, X: Array) -> NDArray[Any]:
        margins = self.booster_.inplace_predict(X, predict_type="margin", missing=np.nan)
        return np.asarray(margins)

    def _booster_bytes(self) -> bytes:
        return bytes(self.booster_.save_raw("json"))

    def _checked_booster(self, content: bytes, outputs: int) -> bytes:
        return checked_xgboost(content, self._category_counts, outputs)

    def _booster_of(self, library: Any, content: bytes) -> Any:
        return library.Booster(model_file=bytearray(content))


class XGBQRMClassifier(Classification, XGBQRM):
    """XGBoost for two or more classes; minimises the α-quantile of the log-loss over domains.

    Args:
        alpha: the level; ``None`` is ERM, the mean of domain risks, with the same machinery.
        measure, distribution, bandwidth: what is minimised, and of which distribution of the
            risk; as in :class:`eqrm.QRMClassifier`.
        random_state: seed of subsampling and of the domains held out.
        n_estimators: rounds of boosting.
        erm_rounds: how many of them minimise the mean risk, before the others train for the level:
            a number, or a share of ``n_estimators``. From nothing, boosting for a level is worse
            than ERM at its own level where much is to be learned (docs/boosting.md).
        learning_rate, max_depth, min_child_weight, subsample, colsample_bytree, reg_alpha,
            reg_lambda, gamma: XGBoost's own; ``None`` leaves its default. The scale of gradient
            and Hessian is that of the built-in objective, so they mean what they mean there.
        early_stopping_rounds: stop when the measure of the validation domains has not fallen
            for this many rounds, and keep the best. The rounds of ERM also end when the mean risk
            of the validation domains has not fallen for so many.
        validation_fraction: the share of training domains held out for that, where ``fit`` is
            given no ``eval_set``.
        booster_params: any other parameter of XGBoost, by name.
        callbacks, n_jobs, verbose: as in XGBoost.

    After ``fit``: ``domains_``, ``domain_counts_`` and ``domain_risks_`` of the training domains,
    ``quantile_risk_`` (what was minimised), ``level_``, ``n_estimators_`` (rounds kept) and
    ``erm_rounds_`` of them, ``validation_curve_``, ``booster_`` (its margins do not include
    ``start_``, the constant that boosting begins from).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = rng.random(1200) < 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=30)[days]))
    >>> model = XGBQRMClassifier(alpha=0.9, n_estimators=20, max_depth=2).fit(X, y, groups=days)
    >>> model.predict_proba(X[:1]).shape, len(model.domain_risks_), model.quantile_risk_ < 0.72
    ((1, 2), 30, True)
    """


class XGBQRMRegressor(Regression, XGBQRM):
    """XGBoost for regression; minimises the α-quantile of the squared error over domains.

    Parameters and attributes are those of :class:`eqrm.XGBQRMClassifier`.
    """


FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
INTEGERS = ("left_children", "right_children", "parents", "split_indices")
FLAGS = ("default_left", "split_type")
CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
"""Of splits by category: which go to the right, for each such node in turn."""
PARTS = frozenset({*FLOATS, *INTEGERS, *FLAGS, *CATEGORIES, "id", "tree_param"})
DELETED = 2**31 - 1
"""What a node that was pruned has as its feature."""
LARGEST_SINGLE = float(np.finfo(np.float32).max)


def checked_xgboost(content: bytes, categories: Sequence[int], outputs: int) -> bytes:
    """A booster as XGBoost wrote it in JSON, for this many outputs; else ``ValueError``.

    ``categories`` says for each feature how many it has, 0 for a feature of numbers. Every index,
    size and number that XGBoost follows is checked. What has no part in predictions (names,
    attributes, the objective) is written as the estimators leave it.
    """
    try:
        found = json.loads(content)
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
    return json.dumps(kept).encode()


def _objective(outputs: int) -> dict[str, Any]:
    if outputs > 1:
        return {"name": "multi:softmax", "softmax_multiclass_param": {"num_class": str(outputs)}}
    return {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}


def _checked_booster(booster: Any, categories: Sequence[int], outputs: int) -> dict[str, Any]:
    if booster["name"] == "dart":
        inner = _checked_booster(booster["gbtree"], categories, outputs)
        weights = _singles(booster, "weight_drop")
        check_finite(weights, "weight_drop")
        check_sizes({"weight_drop": len(weights)}, len(inner["model"]["trees"]))
        return {"gbtree": inner, "name": "dart", "weight_drop": weights.tolist()}
    if booster["name"] != "gbtree":
        raise ValueError("its booster has no trees")
    model = booster["model"]
    trees = [_checked_xgboost_tree(t, i, categories) for i, t in enumerate(model["trees"])]
    info = checked_integers(np.ravel(model["tree_info"]), 0, outputs - 1, "tree_info")
    check_sizes({"tree_info": len(info)}, len(trees))
    rounds = np.ravel(model["iteration_indptr"])
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
        kept["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    return {"model": kept, "name": "gbtree"}


def _checked_xgboost_tree(tree: Any, number: int, categories: Sequence[int]) -> dict[str, Any]:
    refuse_other_keys(tree, PARTS, PARTS)
    arrays = {name: _singles(tree, name) for name in FLOATS}
    for names, least, most in ((INTEGERS, -1, DELETED), (FLAGS, 0, 1)):
        arrays |= {n: checked_integers(np.ravel(tree[n]), least, most, n) for n in names}
    nodes = len(arrays["left_children"])
    check_sizes({name: len(array) for name, array in arrays.items()}, nodes)
    if not nodes or int(tree["tree_param"]["size_leaf_vector"]) not in (0, 1):
        raise ValueError("a tree in it has no nodes, or several values in a leaf")
    arrays["split_conditions"][arrays["split_type"] == 1] = 0.0  # which XGBoost has no use for
    deleted = _check_nodes(arrays, len(categories))
    arrays |= _checked_sets(tree, arrays, categories)
    return {
        **{name: array.tolist() for name, array in arrays.items()},
        "id": number,
        "tree_param": {
            "num_deleted": str(deleted),
            "num_feature": str(len(categories)),
            "num_nodes": str(nodes),
            "size_leaf_vector": "1",
        },
    }


def _checked_sets(
    tree: Any, arrays: dict[str, NDArray[Any]], categories: Sequence[int]
) -> dict[str, NDArray[Any]]:
    """The sets of categories of the nodes that split by them: those of a feature that has any."""
    found = {name: np.ravel(tree[name]) for name in CATEGORIES}
    if not any(len(array) for array in found.values()) and not arrays["split_type"].any():
        return found
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
    return found


def _check_nodes(arrays: dict[str, NDArray[Any]], features: int) -> int:
    """How many nodes were pruned; the rest must be one tree, with features that exist."""
    left, right = arrays["left_children"], arrays["right_children"]
    feature, value = arrays["split_indices"], arrays["split_conditions"]
    leaf, deleted = left == -1, feature == DELETED
    reached = check_links(left, right)
    if (reached == deleted).any():
        raise ValueError("a tree in it has a node without a parent")
    inner = ~leaf & reached
    checked_integers(feature[inner], 0, features - 1, "split_indices")
    if (right[leaf] != -1).any() or np.isnan(value).any():
        raise ValueError("a tree in it has leaves without a value")
    check_finite(value[leaf], "split_conditions")
    parents = arrays["parents"]
    for children in (left, right):
        if (parents[children[inner]] != np.flatnonzero(inner)).any():
            raise ValueError("a tree in it has parents that do not match its children")
    return int(deleted.sum())


def _singles(holder: Any, name: str) -> NDArray[Any]:
    """Numbers as they were read, infinite where they are in single precision."""
    values = np.ravel(holder[name])
    if values.dtype.kind not in "fiu":
        raise ValueError(f"its {name!r} are not numbers")
    found = values.astype(np.float64)
    found[np.abs(found) > LARGEST_SINGLE] = np.inf
    return found
