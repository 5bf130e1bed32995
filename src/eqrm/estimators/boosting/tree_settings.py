"""How large trees should be: settings that need no early stopping, for tables of any size.

Measured with 60 domains × 60 rows to 182 days of flights (docs/boosting.md): trees of 31 leaves,
which the libraries grow by default, learn the noise of small tables.
"""

from __future__ import annotations

from typing import Any

FEW_ROWS = 20_000
LEAVES_OF_FEW, LEAVES = 15, 31
ROWS_OF_A_LEAF, ROWS_OF_A_CATEGORY = 50, 20
"""The fewest rows of a leaf; fewer where categories have a column each, which few rows may have."""


def tree_settings(model: str, rows: int, categories: bool = False) -> dict[str, Any]:
    """Parameters of the estimators of ``lightgbm``, ``xgboost`` or ``histogram``; none of others.

    >>> tree_settings("lightgbm", 3_600)
    {'num_leaves': 15, 'min_child_samples': 50}
    >>> tree_settings("xgboost", 300_000)
    {'max_depth': 0, 'booster_params': {'grow_policy': 'lossguide', 'max_leaves': 31}}
    >>> tree_settings("linear", 3_600)
    {}
    """
    leaves = LEAVES_OF_FEW if rows <= FEW_ROWS else LEAVES
    least = ROWS_OF_A_CATEGORY if categories else ROWS_OF_A_LEAF
    if model == "lightgbm":
        return {"num_leaves": leaves, "min_child_samples": least}
    if model == "xgboost":  # which counts Hessians, not rows
        grown = {"grow_policy": "lossguide", "max_leaves": leaves}
        return {"max_depth": 0, "booster_params": grown}
    if model == "histogram":
        return {"max_leaf_nodes": leaves, "min_samples_leaf": least}
    return {}
