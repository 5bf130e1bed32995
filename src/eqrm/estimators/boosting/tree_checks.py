"""Trees of model files, checked before a library sees them.

The parsers of XGBoost and LightGBM trust their input: a wrong index in it ends the process. So a
file is parsed here, every index and number is checked, and the library is given what is written
again from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.text import shortened

DEEPEST = 10_000
"""LightGBM goes through a tree by recursion."""


def check_links(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which nodes are reached from node 0, where leaves have no left child (−1).

    Children that do not exist, a node with two parents and a circle are refused.
    """
    inner = left != -1
    children = np.concatenate([left[inner], right[inner]])
    inside = bool(((children > 0) & (children < len(left))).all())
    if not inside or len(np.unique(children)) != len(children):
        raise ValueError("a tree in it has a node that does not exist or has two parents")
    reached, level = np.zeros(len(left), bool), np.zeros(1, np.int64)
    for _ in range(DEEPEST):
        reached[level] = True
        level = level[inner[level]]
        if not len(level):
            return reached
        level = np.concatenate([left[level], right[level]])
    raise ValueError(f"a tree in it is deeper than {DEEPEST:,} nodes")


def checked_integers(values: NDArray[Any], least: int, most: int, name: str) -> NDArray[np.int64]:
    """Integers of a range."""
    wrong = values[(values < least) | (values > most)] if values.dtype.kind in "iu" else values
    if len(wrong):
        raise ValueError(
            f"its {name!r} has {wrong[0].item()!r}, which is not an integer from {least} to {most}"
        )
    return values.astype(np.int64)


def check_sizes(lengths: dict[str, int], expected: int) -> None:
    """Raise if one of several arrays does not have the expected length."""
    for name, length in lengths.items():
        if length != expected:
            raise ValueError(f"its {name!r} has {length:,} entries and needs {expected:,}")


def check_finite(values: NDArray[np.floating], name: str) -> None:
    """Raise if numbers are missing or infinite."""
    if not np.isfinite(values).all():
        raise ValueError(f"its {name!r} has a number that is not finite")


def refuse_other_keys(found: object, known: frozenset[str], needed: frozenset[str]) -> None:
    """Raise if a mapping lacks a needed key, or has one that is not known here."""
    if not isinstance(found, dict) or not needed <= set(found):
        raise ValueError("its trees are incomplete")
    if not set(found) <= known:
        other = shortened(sorted(set(found) - known)[0])
        raise ValueError(f"its trees have {other!r}, which this version does not know")
