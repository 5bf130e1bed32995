"""The data of every seed: its own digits and colours to train on, and what it is judged on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import torch

from eqrm import dataset
from eqrm.data import DomainData
from studies.colored_mnist.settings import (
    ALL_FLIPS,
    FLIPS,
    ORACLE_FLIPS,
    TEST_FLIP,
    Recipe,
)

coloured = partial(dataset, "colored-mnist")
ANOTHER_DRAW = 500_000
"""Added to a seed for a second draw of the test domain's labels and colours."""
VALIDATION = tuple(f"validation {flip:g}" for flip in (*FLIPS, TEST_FLIP))
TESTS = tuple(f"test {flip:g}" for flip in ALL_FLIPS)
TEST, REDRAWN = f"test {TEST_FLIP:g}", f"test {TEST_FLIP:g}, another draw"
MEASURED = (*VALIDATION, *TESTS, REDRAWN)
"""What every run is measured on: validation digits in the training domains and in the test
domain, and MNIST's test digits at every colour flip."""


class DigitsBySeed:
    """Training and evaluation data by seed, made once and kept on the device."""

    def __init__(
        self, seeds: list[int], recipe: Recipe, test_digits: int | None, device: torch.device
    ) -> None:
        self.seeds, self.recipe, self.device = seeds, recipe, device
        self.test_digits = test_digits
        self._kept: dict[str, list[DomainData]] = {}

    def training(self, oracle: bool = False) -> list[DomainData]:
        """A dataset per seed; the oracle's colours say nothing about the label."""
        flips = ORACLE_FLIPS if oracle else FLIPS
        return self._made("oracle" if oracle else "training", lambda seed: self._train(seed, flips))

    def _train(self, seed: int, flips: tuple[float, ...]) -> DomainData:
        examples = self.recipe.examples
        return coloured(flips=flips, split="train", examples_per_domain=examples, seed=seed)

    def evaluation(self) -> list[DomainData]:
        """A dataset per seed whose domains are ``MEASURED``."""
        return self._made("evaluation", self._evaluated)

    def _evaluated(self, seed: int) -> DomainData:
        most = self.test_digits
        parts = [
            coloured(flips=flips, split="validation", examples_per_domain=most, seed=seed)
            for flips in (FLIPS, (TEST_FLIP,))
        ]
        draws = [(seed, flip) for flip in ALL_FLIPS] + [(seed + ANOTHER_DRAW, TEST_FLIP)]
        parts += [
            coloured(test_flips=(flip,), split="test", examples_per_domain=most, seed=draw)
            for draw, flip in draws
        ]
        counts = torch.cat([part.counts for part in parts])
        return DomainData(
            torch.cat([part.x for part in parts]),
            torch.cat([part.y for part in parts]),
            torch.repeat_interleave(torch.arange(len(counts)), counts),
            MEASURED,
        )

    def _made(self, name: str, make: Callable[[int], DomainData]) -> list[DomainData]:
        if name not in self._kept:
            first = make(self.seeds[0])  # reads the files once, before others share them
            with ThreadPoolExecutor(8) as pool:
                others = list(pool.map(make, self.seeds[1:]))
            self._kept[name] = [self._here(data) for data in (first, *others)]
        return self._kept[name]

    def _here(self, data: DomainData) -> DomainData:
        half = self.device.type == "cuda" and self.recipe.products == "float16"
        kind = torch.float16 if half else torch.float32
        return replace(data, x=data.x.flatten(1).to(self.device, kind))
