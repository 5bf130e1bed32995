"""Blocks of runs that are trained together, and their results, kept in a file per setting.

A block is a method with an initialisation and the values of its hyperparameter, or a change of the
recipe with a few settings. What is finished is not computed again, on whatever machine.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eqrm.data import DomainData
from eqrm.errors import DataFileError, SettingError
from eqrm.files.archive import read_archive, write_archive
from eqrm.predictors import MLP
from eqrm.text import counted
from studies.colored_mnist.digits_by_seed import MEASURED, DigitsBySeed
from studies.colored_mnist.settings import (
    FLIPS,
    NAMES,
    PRETRAINED,
    MnistSettings,
    Recipe,
    TableSetting,
)
from studies.many_runs.train_many import BurnIn, Run, TrainedRuns, train_many

FORMAT, BURN_IN_FORMAT = "eqrm colored-mnist setting 1", "eqrm colored-mnist burn-in 1"
STANDARD_NAME = "standard"
PIXELS = 392
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Settings that are trained together, by the recipe of this name."""

    recipe_name: str
    recipe: Recipe
    settings: tuple[TableSetting, ...]

    @property
    def title(self) -> str:
        """For people."""
        kinds = dict.fromkeys((s.method, s.initialisation) for s in self.settings)
        shown = ", ".join(f"{NAMES[method]}, {start} initialisation" for method, start in kinds)
        shown = f"{shown} ({counted(len(self.settings), 'setting')})"
        return shown if self.recipe_name == STANDARD_NAME else f"{self.recipe_name}: {shown}"


@dataclass(frozen=True)
class BlockCost:
    """What a block took: its runs, their steps, and the floating-point operations of products.

    ``rate`` is that of a large matrix product on the same device, in operations per second.
    """

    title: str
    runs: int
    run_steps: int
    operations: float
    seconds: float
    device: str
    versions: str
    rate: float


@dataclass(frozen=True, eq=False)
class SettingResult:
    """Accuracies (seeds, ``MEASURED``) of a setting, and its last training risks (seeds, m)."""

    setting: TableSetting
    accuracies: Array
    risks: Array
    cost: BlockCost

    def on(self, name: str) -> Array:
        """The accuracies (seeds,) on one of ``MEASURED``, in per cent."""
        found: Array = 100.0 * self.accuracies[:, MEASURED.index(name)]
        return found


@dataclass
class MnistStudy:
    """Trains blocks, keeps their results in ``folder``, and finds what is there already."""

    settings: MnistSettings
    folder: Path
    first_seed: int
    device: torch.device
    on_step: Callable[[int, int], None] | None = None
    _burn_in_steps: int = field(default=0, init=False)
    _rates: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return list(range(self.first_seed, self.first_seed + self.settings.seeds))

    def file(self, name: str, setting: TableSetting) -> Path:
        """Where the result of a setting is kept."""
        plain = "".join(c if c.isalnum() else "-" for c in name)
        return self.folder / f"{plain}.{setting.name}.safetensors"

    def key(self, recipe: Recipe) -> str:
        """What a result depends on, besides its setting."""
        about = {**asdict(recipe), "seeds": self.seeds, "test digits": self.settings.test_digits}
        return json.dumps(about, sort_keys=True)

    def load(self, name: str, recipe: Recipe, setting: TableSetting) -> SettingResult | None:
        """The result, or None where there is none or a damaged one; that of another is refused."""
        path = self.file(name, setting)
        try:
            archive = read_archive(path, FORMAT, "a result of ColoredMNIST")
        except DataFileError:
            return None
        content = archive.content
        if content["key"] != self.key(recipe):
            raise SettingError(
                f"{path} is a result of other seeds, another size or other products, and would "
                "be overwritten. Give another --output."
            )
        if content.get("setting", setting.name) != setting.name:
            return None
        arrays = {name: values.astype(np.float64) for name, values in archive.tensors.items()}
        cost = BlockCost(**content["cost"])
        return SettingResult(setting, arrays["accuracies"], arrays["risks"], cost)

    def missing(self, block: Block) -> Block:
        """What of a block is still to be trained."""
        left = tuple(
            s for s in block.settings if self.load(block.recipe_name, block.recipe, s) is None
        )
        return Block(block.recipe_name, block.recipe, left)

    def train(self, block: Block) -> None:
        """Train all settings of a block, measure them and write their results."""
        oracle = block.settings[0].method == "oracle"
        training, evaluation = self._data.training(oracle), self._data.evaluation()
        if block.recipe.shared_data:
            training = training[:1]
        start = self._now()
        trained = self._trained(block, training)
        accuracies = trained.accuracies(evaluation).numpy()
        cost = self._cost(block, self._now() - start)
        many = len(self.seeds)
        last = torch.tensor([run.steps - 1 for run in trained.runs])
        risks = trained.risks[torch.arange(len(last)), last].double().numpy()
        for number, setting in enumerate(block.settings):
            rows = slice(number * many, (number + 1) * many)
            content = {
                "key": self.key(block.recipe),
                "setting": setting.name,
                "cost": asdict(cost),
            }
            arrays = {"accuracies": accuracies[rows], "risks": risks[rows]}
            write_archive(self.file(block.recipe_name, setting), FORMAT, content, arrays)

    def _trained(self, block: Block, training: list[DomainData]) -> TrainedRuns:
        shared = block.recipe.shared_data
        runs = [
            Run(seed, setting.phases(block.recipe), 0 if shared else place)
            for setting in block.settings
            for place, seed in enumerate(self.seeds)
        ]
        pretrained = all(setting.initialisation == PRETRAINED for setting in block.settings)
        burn_ins = None
        self._burn_in_steps = 0
        if pretrained and block.recipe_name == STANDARD_NAME:
            burn_ins = self.burn_ins(block, training)
        elif any(setting.initialisation == PRETRAINED for setting in block.settings):
            self._burn_in_steps = len(self.seeds) * block.recipe.burn_in
        return self._together(runs, block.recipe, training, burn_ins)

    def _together(
        self,
        runs: list[Run],
        recipe: Recipe,
        training: list[DomainData],
        burn_ins: dict[int, BurnIn] | None = None,
    ) -> TrainedRuns:
        """Train runs by a recipe. Where they share their data, each is still judged on its own."""
        with matrix_precision(recipe.products):
            trained = train_many(
                runs,
                training,
                network_of(recipe),
                examples_per_domain=recipe.batch,
                replacement=recipe.replacement,
                device=self.device,
                half=self._on_gpu and recipe.products == "float16",
                burn_ins=burn_ins,
                on_step=self.on_step,
            )
        places = {seed: place for place, seed in enumerate(self.seeds)}
        own = tuple(Run(run.seed, run.phases, places[run.seed]) for run in trained.runs)
        return TrainedRuns(own, trained.stack, trained.risks, trained.erm_norms)

    def burn_ins(self, block: Block, training: list[DomainData]) -> dict[int, BurnIn]:
        """ERM's networks by seed, from their files or trained now."""
        key = self.key(block.recipe)
        found = {seed: self._load_burn_in(seed, block.recipe, key) for seed in self.seeds}
        kept = {seed: burn_in for seed, burn_in in found.items() if burn_in is not None}
        if len(kept) == len(found):
            return kept
        phase = block.settings[0].phases(block.recipe)[0]
        runs = [Run(seed, (phase,), place) for place, seed in enumerate(self.seeds)]
        made = self._together(runs, block.recipe, training).burn_ins()
        self._burn_in_steps = len(self.seeds) * phase.length
        for seed, burn_in in made.items():
            content = {"key": key, "erm_norm": burn_in.erm_norm}
            tensors = burn_in.network.state_dict()
            write_archive(self._burn_in_file(seed), BURN_IN_FORMAT, content, tensors)
        return made

    def _burn_in_file(self, seed: int) -> Path:
        return self.folder / f"burn-in.{seed}.safetensors"

    def _load_burn_in(self, seed: int, recipe: Recipe, key: str) -> BurnIn | None:
        path = self._burn_in_file(seed)
        try:
            archive = read_archive(path, BURN_IN_FORMAT, "a burn-in of ColoredMNIST", tensors=True)
        except DataFileError:
            return None
        if archive.content["key"] != key:
            return None
        network = network_of(recipe)()
        network.load_state_dict(archive.tensors)
        return BurnIn(network, archive.content["erm_norm"])

    @cached_property
    def _data(self) -> DigitsBySeed:
        settings = self.settings
        return DigitsBySeed(self.seeds, settings.recipe, settings.test_digits, self.device)

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def _now(self) -> float:
        if self._on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def _cost(self, block: Block, seconds: float) -> BlockCost:
        """The burn-in counts where it was trained in this block, once per seed."""
        recipe, seeds = block.recipe, self.settings.seeds
        rows = len(FLIPS) * (recipe.examples if recipe.batch is None else recipe.batch)
        steps = {True: 0, False: self._burn_in_steps}
        for setting in block.settings:
            steps[setting.method == "iga"] += seeds * setting.phases(recipe)[-1].length
        operations = sum(n * step_operations(recipe, rows, iga) for iga, n in steps.items())
        if recipe.products not in self._rates:
            self._rates[recipe.products] = matrix_rate(self.device, recipe.products)
        return BlockCost(
            title=block.title,
            runs=seeds * len(block.settings),
            run_steps=sum(steps.values()),
            operations=operations,
            seconds=seconds,
            device=torch.cuda.get_device_name(self.device) if self._on_gpu else "CPU",
            versions=f"Python {platform.python_version()}, torch {torch.__version__}",
            rate=self._rates[recipe.products],
        )


def network_of(recipe: Recipe) -> Callable[[], MLP]:
    """Makes the network of a recipe: one logit, binary cross-entropy."""

    def make() -> MLP:
        loss = "binary-cross-entropy"
        return MLP(
            PIXELS, 1, recipe.width, recipe.depth, recipe.dropout, recipe.initialisation, loss
        )

    return make


def step_operations(recipe: Recipe, rows: int, iga: bool) -> float:
    """Floating-point operations of the matrix products of one step of one run.

    Every layer has 3 products (of the first, one is not needed), and with IGA 9 (of the first, 4).
    """
    sizes = [PIXELS, *[recipe.width] * recipe.depth, 1]
    pairs = [a * b for a, b in pairwise(sizes)]
    first, others = (4, 9) if iga else (2, 3)
    return 2.0 * rows * (first * pairs[0] + others * sum(pairs[1:]))


@contextmanager
def matrix_precision(products: str) -> Iterator[None]:
    """Whether products of float32 may round their factors to TF32, while this lasts."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if products == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def matrix_rate(device: torch.device, products: str) -> float:
    """Floating-point operations per second of a large square matrix product, the best of ten."""
    on_gpu = device.type == "cuda"
    size = 8192 if on_gpu else 1024
    kind = torch.float16 if on_gpu and products == "float16" else torch.float32
    left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))

    def once(left: Tensor, right: Tensor) -> float:
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        torch.mm(left, right)
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    with matrix_precision(products):
        times = [once(left, right) for _ in range(11)]
    return 2.0 * size**3 / min(times[1:])
