"""Random numbers that are a function of a few integers, so that no state is needed.

Each number is a hash of (seed, …), the finaliser of SplitMix64 (Steele, Lea & Flood 2014)
chained over the integers. A sampler that draws with them is resumed from its step number alone,
and every process of a group can draw what another one draws.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def hashed(*numbers: int | Integers) -> Words:
    """A 64-bit word per element, a function of integers that are broadcast together."""
    word = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        added = number if isinstance(number, np.ndarray) else np.array([number % 2**64], np.uint64)
        word = _mixed(word * _GOLDEN + added.astype(np.uint64) + _GOLDEN)
    return word


def _mixed(word: Words) -> Words:
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


def below(limit: int | Integers, words: Words) -> Integers:
    """Integers from 0 to limit − 1; the bias is below limit/2⁶⁴."""
    return (words % np.asarray(limit, dtype=np.uint64)).astype(np.int64)


def uniform(words: Words) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers in (0, 1), never 0 and never 1."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def different(number: int, limit: int, *key: int) -> Integers:
    """``number`` different integers below ``limit``, uniform over all ordered choices."""
    if 4 * number >= limit:
        return np.argsort(hashed(*key, np.arange(limit)), kind="stable")[:number]
    # Few of many: draw with repetition and keep the first appearance of each.
    found = np.empty(0, dtype=np.int64)
    drawn = 0
    while len(found) < number:
        more = np.arange(drawn, drawn + number + 16)
        drawn += len(more)
        found = np.concatenate([found, below(limit, hashed(*key, more))])
        _, first = np.unique(found, return_index=True)
        found = found[np.sort(first)]
    return found[:number]


def different_by_weight(number: int, weights: Integers, *key: int) -> Integers:
    """``number`` different integers, each next one drawn in proportion to the weights left."""
    clocks = -np.log(uniform(hashed(*key, np.arange(len(weights))))) / weights
    first = np.argpartition(clocks, number - 1)[:number]
    return first[np.argsort(clocks[first], kind="stable")]
