"""From a configuration to a trained predictor in a folder of its own, and back from the folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from eqrm.checks import naming_field
from eqrm.data.batches import DomainBatches
from eqrm.data.seen_domains import SeenDomains
from eqrm.data.tables.frames import column, frame_columns
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.domains import number_domains
from eqrm.errors import CheckpointError, DataFileError, Setting, SettingError
from eqrm.files.writing import write_text
from eqrm.predictors.base import Predictor
from eqrm.text import counted, listed
from eqrm.training.preflight import as_predictor
from eqrm.training.processes import rank, world_size
from eqrm.training.runs.config import EPOCHS, DataConfig, RunConfig
from eqrm.training.runs.run_data import PredictorSpec, RunData
from eqrm.training.runs.run_folder import PREDICTOR, WEIGHTS, RunFolder
from eqrm.training.state import random_states, seed_everything, set_random_states
from eqrm.training.trainer import Trained, Trainer


def train_run(
    config: RunConfig,
    output: str | Path = "runs",
    *,
    resume: bool = True,
    progress: bool | Callable[[str], None] = False,
    data_root: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
    read: Callable[[DataConfig, str | Path | None], RunData] = RunData.read,
) -> Trained:
    """Train what a configuration describes, in ``output/<hash of the configuration>``.

    ``tell`` is called with what a user should know about the data; ``read`` reads the data from
    the data root.
    """
    with naming_field("training.device"):
        config.training.torch_device()  # before the data is read
    data = read(config.data, data_root)
    trainer = trainer_on(config, data, output, progress)
    stops = config.training.early_stopping
    spec = PredictorSpec.of(config.predictor, data, None if stops is None else stops.split)
    files = RunFolder(run_folder(config, output))
    if resume:
        _refuse_other_table(files, spec)
    if rank() == 0:
        if tell is not None:
            for note in data.train.notes:
                tell(note)
        files.make()
        write_text(files.path / "config.yaml", config.to_yaml())
        files.write_json(PREDICTOR, spec.to_dict())
    return trainer.fit(resume)


def run_folder(config: RunConfig, output: str | Path = "runs") -> Path:
    """Where a run is written."""
    return Path(output) / config.run_name


def trainer_of(
    config: RunConfig, output: str | Path = "runs", data_root: str | Path | None = None
) -> Trainer:
    """The trainer of a run; everything is read and checked, nothing is written or trained."""
    return trainer_on(config, RunData.read(config.data, data_root), output)


def trainer_on(
    config: RunConfig,
    data: RunData,
    output: str | Path,
    progress: bool | Callable[[str], None] = False,
) -> Trainer:
    """The trainer of a run, on data that was read before."""
    seed = config.training.seed if config.batches.seed is None else config.batches.seed
    chosen = replace(config.batches, seed=seed, rank=rank(), world_size=world_size())
    with naming_field("batches"):
        batches = DomainBatches(data.train, **asdict(chosen))
    per_unit = batches.steps_per_epoch if config.unit == EPOCHS else 1
    phases = config.made_phases(data.train.num_domains, data.train.counts, per_unit)
    seed_everything(config.training.seed)  # the first weights, the same in every process
    with naming_field("predictor"):
        spec = PredictorSpec.of(config.predictor, data)
        network = spec.predictor(config.predictor)
        if config.predictor.start_from is not None:
            _start_from(network, Path(config.predictor.start_from), spec, data)
    return Trainer(
        network,
        data.train,
        phases,
        batches,
        held_out=data.held_out,
        settings=config.training_in_steps(per_unit),
        folder=run_folder(config, output),
        progress=progress,
    )


def _start_from(network: Predictor, folder: Path, spec: PredictorSpec, data: RunData) -> None:
    """Give a network the weights of a finished run, which has seen no test domain."""
    files = RunFolder.finished(folder)
    _refuse_other_start(PredictorSpec.saved_in(files), folder, spec, data)
    weights = files.read_weights()
    own = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    other = {name: tuple(weight.shape) for name, weight in weights.items()}
    if own != other:
        name = min(name for name in {*own, *other} if own.get(name) != other.get(name))
        raise SettingError(
            f"start_from: the weights {name!r} have shape {own.get(name, 'none')} in this network "
            f"and {other.get(name, 'none')} in {folder}. Give a run of the same network, whose "
            "objective has no network of its own."
        )
    network.load_state_dict(weights)


def _refuse_other_start(
    before: PredictorSpec, folder: Path, spec: PredictorSpec, data: RunData
) -> None:
    """Refuse a run with another loss, other classes of a table, or that has seen test domains."""
    tables = (before.preprocessor, spec.preprocessor)
    tasks = [None if each is None else each.task for each in tables]
    if before.loss != spec.loss or (None not in tasks and tasks[0] != tasks[1]):
        raise SettingError(
            f"start_from: the run in {folder} has another loss or other classes than this one. "
            "Start from a run on the same target."
        )
    tested = data.held_out["test"].names if "test" in data.held_out else ()
    seen = [] if before.seen is None else before.seen.among(tested)
    if seen:
        raise SettingError(
            f"start_from: the run in {folder} was trained on {counted(len(seen), 'domain')} that "
            f"this run tests on: {listed(seen)}. Hold out the same domains in both, or start from "
            "a run that held these out."
        )


def _refuse_other_table(files: RunFolder, spec: PredictorSpec) -> None:
    """Refuse to continue a run on inputs that are encoded differently."""
    if spec.preprocessor is None or not files.checkpoints.paths():
        return
    if not PredictorSpec.saved_in(files).encodes_like(spec):
        raise CheckpointError(
            f"The table has changed since the run in {files.path} began: its columns or classes "
            "would be encoded differently. Restore the original table. Start it again "
            f"({Setting('resume', False)}), or use another folder."
        )


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


def load_run(folder: str | Path) -> Predictor | TableNetwork:
    """What a finished run has trained: a :class:`TableNetwork` if it was trained on a table."""
    on_table = _finished_run(folder)[2].preprocessor is not None
    return load_table_network(folder) if on_table else load_predictor(folder)


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
