"""The trained predictor of a finished run, from its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from eqrm.errors import CheckpointError, DataFileError
from eqrm.predictors.base import Predictor
from eqrm.training.random_states import random_states, set_random_states
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import trainer_of
from eqrm.training.runs.run_folder import RunFolder


def load_predictor(folder: str | Path, *, data_root: str | Path | None = None) -> Predictor:
    """The predictor that ``eqrm train-network`` left in a folder, on the CPU, ready to predict.

    It is made from ``config.yaml`` and ``weights.safetensors``: reading them runs no code. The
    run's data is read again, for the shape of its inputs and its classes, so it must be where it
    was (``data_root`` as for :func:`eqrm.dataset`).

    >>> load_predictor("no/such/run")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: There is no finished run in no/such/run: ...
    """
    path = Path(folder)
    if not RunFolder(path).done:
        raise DataFileError(
            f"There is no finished run in {path}: the file DONE is missing. Give the folder that "
            "'eqrm train-network' printed, or start the run again to finish it."
        )
    config = RunConfig.from_file(path / "config.yaml")
    config = replace(config, training=replace(config.training, device="cpu"))
    before = random_states()
    try:
        trainer = trainer_of(config, path.parent, data_root=data_root)
        for number in range(len(trainer.phases)):  # some objectives replace the predictor
            trainer.state.enter_phase(number)
    finally:
        set_random_states(before)
    predictor = trainer.state.predictor
    file = path / "weights.safetensors"
    try:
        predictor.load_state_dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {file} cannot be read: {error}.") from None
    except RuntimeError:
        raise CheckpointError(
            f"The weights {file} do not fit the run's configuration and data. If the data has "
            "changed since, bring back what the run was trained on."
        ) from None
    return predictor.eval()
