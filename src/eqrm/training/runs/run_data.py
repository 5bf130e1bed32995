"""The data of a run, and what a predictor takes from it: sizes, loss, and the coding of a table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import naming_field
from eqrm.data.datasets.registry import raw_dataset
from eqrm.data.domain_data import DomainData
from eqrm.data.seen_domains import SeenDomains
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.table import Table
from eqrm.errors import DataFileError, EqrmError, SettingError
from eqrm.predictors.base import Predictor
from eqrm.predictors.registry import predictor
from eqrm.training.runs.config import DataConfig, Names, PredictorConfig
from eqrm.training.runs.run_folder import PREDICTOR, RunFolder

FORMAT = "eqrm predictor 1"


@dataclass(frozen=True)
class RunData:
    """The data of a run: what is trained on, what is held out, and how a table was encoded.

    ``held_out`` is all that risks are measured on, the training data among it where asked for.
    """

    train: DomainData
    held_out: Mapping[str, DomainData]
    preprocessor: TablePreprocessor | None = None

    @classmethod
    def read(cls, config: DataConfig, root: str | Path | None = None) -> RunData:
        """Read and split a dataset. A table is encoded by what its training domains tell."""
        return cls.of(read_dataset(config, root), config)

    @classmethod
    def of(cls, found: DomainData | Table, config: DataConfig) -> RunData:
        """Split a dataset that was read before."""
        with naming_field("data"):
            if isinstance(found, DomainData):
                return cls._split(found, config)
            rows = np.arange(len(found))[:, None]
            places = DomainData.from_arrays(rows, np.zeros(len(found)), found.domains)
            train = cls._split(places, config).train
            preprocessor = TablePreprocessor.fit(found.rows(train.x[:, 0].numpy()))
            split = cls._split(preprocessor.encode(found), config)
            return replace(split, preprocessor=preprocessor)

    def seen(self, watched: str | None = None) -> SeenDomains:
        """The domains to train and validate on, and those of the split that stops training early.

        Examples of test domains that are held out for validation do not make a domain seen, unless
        they stop the training.
        """
        parts = {name: set(part.names) for name, part in self.held_out.items()}
        names = parts.get("validation", set()) - parts.get("test", set())
        return SeenDomains.of({*self.train.names, *names, *parts.get(watched or "", set())})

    @classmethod
    def _split(cls, whole: DomainData, config: DataConfig) -> RunData:
        if config.leave_out:
            unused = set(whole.ids(_domains(config.leave_out)))  # type: ignore[arg-type]
            whole = whole.select([i for i in range(whole.num_domains) if i not in unused])
        held_out_of_all: DomainData | None = None
        if config.split_test_domains and config.validation_examples is not None:
            whole, held_out_of_all = whole.split_examples(config.validation_examples, config.seed)
        splits = whole.splits(
            test=_domains(config.test),
            validation=_domains(config.validation),
            train=None if config.train is None else _domains(config.train),  # type: ignore[arg-type]
            seed=config.seed,
        )
        train, validation = splits.train, splits.validation
        if held_out_of_all is not None:
            used = {*train.names, *(splits.test.names if splits.test is not None else ())}
            validation = held_out_of_all.select([n for n in held_out_of_all.names if n in used])
        elif config.validation_examples is not None:
            train, validation = train.split_examples(config.validation_examples, config.seed)
        held_out = {
            "train": train if config.measure_training else None,
            "validation": validation,
            "test": splits.test,
        }
        return cls(train, {name: part for name, part in held_out.items() if part is not None})


class LastDataset:
    """Reads datasets, and keeps the last one if reading it took long: the next run of a sweep
    usually has the same."""

    worth_keeping = 1.0
    """Seconds."""

    def __init__(self) -> None:
        self._kept: tuple[str, DomainData | Table] | None = None

    def read(self, config: DataConfig, root: str | Path | None = None) -> RunData:
        """The same as :meth:`RunData.read`."""
        key = json.dumps([config.dataset, config.settings, str(root)], sort_keys=True, default=str)
        if self._kept is not None and self._kept[0] == key:
            return RunData.of(self._kept[1], config)
        self._kept, began = None, time.monotonic()
        found = read_dataset(config, root)
        if time.monotonic() - began > self.worth_keeping:
            self._kept = key, found
        return RunData.of(found, config)


def read_dataset(config: DataConfig, root: str | Path | None) -> DomainData | Table:
    """The whole dataset of a run, not split yet."""
    with naming_field("data"):
        return raw_dataset(config.dataset, root, **config.settings)


def _domains(given: Names | float) -> list[str | int] | float:
    """Names as strings: YAML reads 0.1 and 7 as numbers, and 7 must not mean the eighth domain."""
    if isinstance(given, list):
        return [str(name) for name in given]
    return given


@dataclass(frozen=True)
class PredictorSpec:
    """What a predictor takes from the data it is trained on; saved with the run.

    ``inputs`` is the shape of one example, None for graphs; ``domains`` is how many there are to
    train on; ``seen`` are those that had a part in training, where they are known.
    """

    inputs: tuple[int, ...] | None
    outputs: int
    loss: str
    domains: int
    preprocessor: TablePreprocessor | None = None
    seen: SeenDomains | None = None

    @classmethod
    def of(
        cls, config: PredictorConfig, data: RunData, watched: str | None = None
    ) -> PredictorSpec:
        """The loss and outputs that are configured, or that the targets call for.

        ``watched`` is the split that stops training early, if one does.
        """
        train = data.train
        loss = config.loss
        if loss is None:
            if train.y.is_floating_point():
                raise SettingError(
                    "loss is needed for targets that are real numbers: 'squared', or "
                    "'binary-cross-entropy' for labels of 0 and 1."
                )
            loss = "cross-entropy"
        outputs = config.outputs
        if outputs is None:
            outputs = _outputs(loss, [part.y for part in (train, *data.held_out.values())])
        example = train.rows(torch.tensor([0])).x
        shape = tuple(example.shape[1:]) if isinstance(example, Tensor) else None
        seen = data.seen(watched)
        if config.start_from is not None:
            before = cls.saved_in(RunFolder.finished(config.start_from))
            if before.seen is not None:
                seen = SeenDomains(seen.digests | before.seen.digests)
        return cls(shape, outputs, loss, train.num_domains, data.preprocessor, seen)

    def predictor(self, config: PredictorConfig) -> Predictor:
        """A new predictor of this size."""
        for name in ("loss", "outputs", "inputs"):
            if name in config.settings:
                where = (
                    f"Give predictor.{name}." if name != "inputs" else "It follows from the data."
                )
                raise SettingError(f"settings cannot hold {name}. {where}")
        try:
            return predictor(
                config.name, self.inputs, self.outputs, loss=self.loss, **config.settings
            )
        except EqrmError:
            raise
        except (TypeError, ValueError, RuntimeError) as error:  # torch: a width of −1, dropout of 2
            chosen = {"outputs": self.outputs, **config.settings}
            raise SettingError(f"{config.name} cannot be made with {chosen}: {error}.") from None

    def encodes_like(self, other: PredictorSpec) -> bool:
        """Whether both turn a table into the same inputs and targets."""
        mine, theirs = self.preprocessor, other.preprocessor
        if mine is None or theirs is None:
            return mine is theirs
        return mine.encoder.columns == theirs.encoder.columns and mine.task == theirs.task

    @classmethod
    def saved_in(cls, files: RunFolder) -> PredictorSpec:
        """That of a run, in its folder."""
        content = files.read_json(PREDICTOR)
        if content is None:
            raise DataFileError(f"{files.path} has no {PREDICTOR}. Train the network again.")
        try:
            return cls.from_dict(content)
        except (KeyError, TypeError, ValueError) as error:
            raise DataFileError(
                f"{files.path / PREDICTOR} is damaged ({error}). Train the network again."
            ) from None

    def to_dict(self) -> dict[str, Any]:
        table = None if self.preprocessor is None else self.preprocessor.to_dict()
        own = {"inputs": self.inputs, "outputs": self.outputs, "loss": self.loss}
        seen = None if self.seen is None else self.seen.to_list()
        return {"format": FORMAT, **own, "domains": self.domains, "table": table, "seen": seen}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> PredictorSpec:
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        inputs, table = content["inputs"], content["table"]
        return cls(
            None if inputs is None else tuple(inputs),
            int(content["outputs"]),
            str(content["loss"]),
            int(content["domains"]),
            None if table is None else TablePreprocessor.from_dict(table),
            SeenDomains.from_list(content["seen"]),
        )


def _outputs(loss: str, targets: list[Tensor]) -> int:
    if loss == "cross-entropy":
        return int(max(y.max() for y in targets)) + 1
    return targets[0].shape[1] if targets[0].ndim > 1 else 1
