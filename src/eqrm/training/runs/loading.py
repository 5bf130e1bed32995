"""Trained networks from the folders of their runs: the predictor, and predictions for tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from eqrm.data.seen_domains import SeenDomains
from eqrm.data.tables.frames import column, frame_columns
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.domains import number_domains
from eqrm.errors import CheckpointError, DataFileError
from eqrm.predictors.base import Predictor
from eqrm.training.preflight import as_predictor
from eqrm.training.random_states import random_states, set_random_states
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run_data import PredictorSpec
from eqrm.training.runs.run_folder import WEIGHTS, RunFolder

EXAMPLES_AT_ONCE = 16_384


@dataclass(frozen=True, eq=False)
class TableNetwork:
    """A trained network, what turns a table into its inputs, and the domains that it has seen."""

    predictor: Predictor
    preprocessor: TablePreprocessor
    seen: SeenDomains | None = None

    @torch.no_grad()
    def predict(self, frame: Any, unseen: str = "warn") -> dict[str, NDArray[Any]]:
        """Columns of predictions, as ``Task.predictions`` describes them.

        ``frame`` is a table of any kind with the columns of training. Networks that adapt to a
        domain (ARM, MTL) look at its column of domains, where it has one. ``unseen`` says what to
        do about categories that did not occur in training: "warn" or "error".
        """
        task = self.preprocessor.task
        x = torch.from_numpy(self.preprocessor.matrix(frame, unseen)).float()
        domains = self._domains(frame, len(x))
        order = torch.argsort(domains, stable=True)  # a domain in one piece, as far as may be
        parts = [self.predictor(x[rows], domains[rows]) for rows in order.split(EXAMPLES_AT_ONCE)]
        outputs = torch.cat(parts)[torch.argsort(order)].double()
        if not task.classes:
            return task.predictions(outputs.reshape(-1).numpy())
        probabilities = self.predictor.class_logits(outputs).softmax(dim=1)
        return task.predictions(probabilities[:, : len(task.classes)].numpy())

    def _domains(self, frame: Any, rows: int) -> Tensor:
        names, adapts = list(self.preprocessor.key.columns), type(self.predictor).forward
        if adapts is Predictor.forward or not {*names} <= {*frame_columns(frame)}:
            return torch.zeros(rows, dtype=torch.long)
        return torch.from_numpy(number_domains(column(frame, names)).ids)


def load_table_network(folder: str | Path) -> TableNetwork:
    """The network that ``eqrm train-network`` trained on a table, ready to predict for another."""
    files, config, spec = _finished_run(folder)
    if spec.preprocessor is None:
        raise DataFileError(
            f"The run in {files.path} was not trained on a table, but on the dataset "
            f"{config.data.dataset!r}. Use eqrm.training.load_predictor in Python."
        )
    return TableNetwork(_loaded(files, config, spec), spec.preprocessor, spec.seen)


def is_table_run(folder: str | Path) -> bool:
    """Whether a finished run was trained on a table."""
    return _finished_run(folder)[2].preprocessor is not None


def load_predictor(folder: str | Path) -> Predictor:
    """The predictor that ``eqrm train-network`` left in a folder, on the CPU, ready to predict.

    It is made from ``config.yaml``, ``predictor.json`` and ``weights.safetensors``: reading them
    runs no code.

    >>> load_predictor("no/such/run")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: no/such/run does not hold a finished run: ...
    """
    return _loaded(*_finished_run(folder))


def _finished_run(folder: str | Path) -> tuple[RunFolder, RunConfig, PredictorSpec]:
    """The files of a run, its configuration, and what its predictor took from the data."""
    files = RunFolder.finished(folder)
    config = RunConfig.from_file(files.path / "config.yaml")
    return files, config, PredictorSpec.saved_in(files)


def _loaded(files: RunFolder, config: RunConfig, spec: PredictorSpec) -> Predictor:
    """The predictor as the last phase left it; some objectives replace it."""
    before = random_states()
    try:
        network = spec.predictor(config.predictor)
        predictor = as_predictor(network, None, config.training.batch_norm)
        for phase in config.made_phases(spec.domains):
            predictor = phase.minimised.prepare(predictor, spec.domains)
    finally:
        set_random_states(before)
    try:
        predictor.load_state_dict(files.read_weights())
    except RuntimeError:
        raise CheckpointError(
            f"The weights {files.path / WEIGHTS} do not fit the run's configuration and data. If "
            "the data has changed since, restore the data that the run was trained on."
        ) from None
    return predictor.eval()
