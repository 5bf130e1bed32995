"""Signs that models are judged on what they have seen, so that every number is too good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.hashed_draws import hashed
from eqrm.tabular.preparation import EncodedPart, PreparedTraining
from eqrm.text import counted

FEWEST_COPIES, FEWEST_SURPRISES = 0.01, 5.0
"""Rows that are alike are copies where they are this share of all, and agree in their targets where
chance would make so many of them differ."""
STILL_DIFFER = 0.1
"""How many of those may differ nevertheless, as a share."""


def leaks_of(prepared: PreparedTraining) -> list[str]:
    """Names of domains or classes that may be spellings of one, and rows in several domains."""
    parts = [prepared.train, *([] if prepared.test is None else [prepared.test])]
    units, called = [name for part in parts for name in part.table.unit_names], parts[0].table.unit
    return [
        *spelled_alike(units, f"{called}s", "models are judged on what they have seen"),
        *spelled_alike(prepared.task.classes, "classes", "they are to be told apart"),
        *_copies(parts),
    ]


def spelled_alike(names: Sequence[str], what: str, otherwise: str) -> list[str]:
    """A sentence about names that differ in capitals or spaces alone."""
    first: dict[str, str] = {}
    pairs = [
        (first[bare], name)
        for name in names
        if first.setdefault(bare := " ".join(name.casefold().split()), name) != name
    ]
    if not pairs:
        return []
    one, other = pairs[0]
    more = f" (and {counted(len(pairs) - 1, 'more such pair')})" if len(pairs) > 1 else ""
    return [
        f"The {what} {one!r} and {other!r} differ in capitals or spaces alone, and count as two"
        f"{more}: if they are the same, {otherwise}. Spell them alike."
    ]


def _copies(parts: Sequence[EncodedPart]) -> list[str]:
    """A sentence about rows whose features and target are those of a row of another domain.

    Rows may be alike by chance where features are few and coarse; then targets differ as often as
    those of any two rows.
    """
    first = len(parts[0].table.unit_names)
    ids = np.concatenate([part.table.unit_ids + first * at for at, part in enumerate(parts)])
    labels = np.concatenate([part.labels for part in parts])
    words = np.concatenate([_words(part.matrix) for part in parts])
    order = np.lexsort((ids, words))
    words, ids, labels = words[order], ids[order], labels[order]
    alike = (words[1:] == words[:-1]) & (ids[1:] != ids[:-1])
    number = int(alike.sum())
    by_chance = 1.0 - float(((np.unique(labels, return_counts=True)[1] / len(labels)) ** 2).sum())
    differ = int((alike & (labels[1:] != labels[:-1])).sum())
    few = number < FEWEST_COPIES * len(ids) or number * by_chance < FEWEST_SURPRISES
    if few or differ > STILL_DIFFER * number * by_chance:
        return []
    return [
        f"{number:,} of {len(ids):,} rows have the features and the target of a row of another "
        f"{parts[0].table.unit}: if they are copies, models are judged on rows that they have "
        "seen. Leave them out."
    ]


def _words(matrix: NDArray[np.float64]) -> NDArray[Any]:
    """A word for each row that is the same for the same features."""
    found: NDArray[Any] = np.zeros(len(matrix), dtype=np.int64)
    for column in matrix.T:
        found = hashed(found, np.ascontiguousarray(column).view(np.int64)).view(np.int64)
    return found
