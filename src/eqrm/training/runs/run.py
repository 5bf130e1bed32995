"""From a configuration to a trained predictor in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from eqrm.checks import naming_field
from eqrm.data.batches import DomainBatches
from eqrm.errors import CheckpointError, Setting, SettingError
from eqrm.files.writing import write_text
from eqrm.predictors.base import Predictor
from eqrm.text import counted, listed
from eqrm.training.processes import rank, world_size
from eqrm.training.random_states import seed_everything
from eqrm.training.runs.config import EPOCHS, DataConfig, RunConfig
from eqrm.training.runs.run_data import PredictorSpec, RunData
from eqrm.training.runs.run_folder import RunFolder
from eqrm.training.trainer import Trained, Trainer


def train_run(
    config: RunConfig,
    output: str | Path = "runs",
    *,
    resume: bool = True,
    progress: bool | Callable[[str], None] = False,
    data_root: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
    gives_up: Callable[[], bool] | None = None,
    read: Callable[[DataConfig, str | Path | None], RunData] = RunData.read,
) -> Trained:
    """Train what a configuration describes, in ``output/<hash of the configuration>``.

    ``tell`` is called with what a user should know about the data; ``gives_up`` as in
    :class:`~eqrm.training.trainer.Trainer`; ``read`` reads the data from the data root.
    """
    with naming_field("training.device"):
        config.training.torch_device()  # before the data is read
    data = read(config.data, data_root)
    trainer = trainer_on(config, data, output, progress, gives_up)
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
        spec.save(files)
    return trainer.fit(resume)


def run_folder(config: RunConfig, output: str | Path = "runs") -> Path:
    """Where a run is written."""
    return Path(output) / config.run_name


def trainer_of(
    config: RunConfig,
    output: str | Path = "runs",
    *,
    progress: bool | Callable[[str], None] = False,
    data_root: str | Path | None = None,
) -> Trainer:
    """The trainer of a run; everything is read and checked, nothing is written or trained."""
    return trainer_on(config, RunData.read(config.data, data_root), output, progress)


def trainer_on(
    config: RunConfig,
    data: RunData,
    output: str | Path,
    progress: bool | Callable[[str], None] = False,
    gives_up: Callable[[], bool] | None = None,
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
        gives_up=gives_up,
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
