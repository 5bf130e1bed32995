"""Which domains, or which examples of each domain, are held out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import OPEN_FRACTION
from eqrm.errors import DataFileError, SettingError

PARTS = ("train", "validation", "test")


def parts_of_domains(
    given: Mapping[str, Sequence[int] | float | None], names: Sequence[str], seed: int
) -> dict[str, list[int]]:
    """The domains of each part: as listed, drawn by share, or (train) what is left.

    A share is of all domains, rounded, at least one. Domains that a list names are never drawn.

    >>> parts_of_domains({"train": None, "validation": [0], "test": 0.5}, ["a", "b", "c", "d"], 1)
    {'train': [3], 'validation': [0], 'test': [1, 2]}
    """
    parts = {name: list(part) for name, part in given.items() if isinstance(part, Sequence)}
    _refuse_overlap(parts, names)
    taken = {number for part in parts.values() for number in part}
    free = [number for number in range(len(names)) if number not in taken]
    order = np.random.default_rng(seed).permutation(free).tolist()
    for name in ("test", "validation"):
        share = given[name]
        if isinstance(share, float):
            wanted = _number(name, share, len(names))
            if wanted > len(order):
                raise SettingError(
                    f"A {name} share of {share:g} is {wanted} of {len(names)} domains, but only "
                    f"{len(order)} are not used elsewhere. Lower the share."
                )
            parts[name], order = sorted(order[:wanted]), order[wanted:]
    if given["train"] is None:
        parts["train"] = sorted(order)
    return {name: parts[name] for name in PARTS}


def _number(name: str, share: float, domains: int) -> int:
    if not 0.0 <= share < 1.0:
        raise SettingError(
            f"The {name} share must be a number from 0 to below 1, got {share:g}. "
            "To name domains, give a list."
        )
    return max(1, round(share * domains)) if share > 0 else 0


def _refuse_overlap(parts: Mapping[str, Sequence[int]], names: Sequence[str]) -> None:
    used: dict[int, str] = {}
    for part, numbers in parts.items():
        for number in numbers:
            if number in used:
                raise SettingError(
                    f"The domain {names[number]!r} is in {used[number]} and in {part}. "
                    "A domain may be in one of them only: remove it from the other."
                )
            used[number] = part


def refuse_shared(parts: Mapping[str, Collection[str]], what: str) -> None:
    """Raise if two published parts share a domain: it would be tested on what it trained.

    >>> refuse_shared({"train": ["a", "b"], "test": ["b"]}, "split.csv: the trap")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: split.csv: the trap 'b' is in train and in test.
    """
    for first, second in combinations(parts, 2):
        both = sorted(set(parts[first]) & set(parts[second]))
        if both:
            raise DataFileError(f"{what} {both[0]!r} is in {first} and in {second}.")


def examples_to_hold_out(domains: Tensor, num_domains: int, share: float, seed: int) -> Tensor:
    """(n,) true for ⌊share · n_e⌋ random examples of each domain e.

    >>> examples_to_hold_out(torch.tensor([0, 0, 1, 1]), 2, 0.5, seed=0).sum()
    tensor(2)
    """
    OPEN_FRACTION.check(share, "The share to hold out")
    order = np.random.default_rng(seed).permutation(len(domains))
    ids = domains.numpy()[order]
    by_domain = order[np.argsort(ids, kind="stable")]  # each domain's examples, shuffled
    counts = np.bincount(ids, minlength=num_domains)
    place = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
    # A share such as 0.2 is a little more or less than 1/5 in binary: 5 examples must give one.
    wanted = np.floor(share * counts + 1e-9)
    held_out = np.zeros(len(ids), dtype=bool)
    held_out[by_domain[place < np.repeat(wanted, counts)]] = True
    return torch.from_numpy(held_out)
