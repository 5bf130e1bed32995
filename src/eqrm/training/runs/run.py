"""From a configuration to a trained predictor in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from eqrm.data.batches import DomainBatches
from eqrm.data.datasets.registry import dataset
from eqrm.data.domain_data import DomainData
from eqrm.errors import EqrmError, SettingError
from eqrm.files.writing import whole_file
from eqrm.predictors.base import Predictor
from eqrm.predictors.registry import predictor
from eqrm.training.processes import rank, world_size
from eqrm.training.random_states import seed_everything
from eqrm.training.runs.config import DataConfig, Names, PredictorConfig, RunConfig
from eqrm.training.runs.config_reading import naming_field
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
) -> Trained:
    """Train what a configuration describes, in ``output/<hash of the configuration>``.

    ``tell`` is called with what a user should know about the data.
    """
    trainer = trainer_of(config, output, progress=progress, data_root=data_root)
    if tell is not None and rank() == 0:
        for note in trainer.data.notes:
            tell(note)
    folder = run_folder(config, output)
    if rank() == 0:
        RunFolder(folder).make()
        with whole_file(folder / "config.yaml") as draft:
            draft.write_text(config.to_yaml(), encoding="utf-8")
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
    train, held_out = _parts(config.data, data_root)
    phases = config.made_phases(train.num_domains, train.counts)
    chosen = config.batches
    with naming_field("batches"):
        batches = DomainBatches(
            train,
            chosen.domains,
            chosen.examples,
            over=chosen.over,
            repeat_domains=chosen.repeat_domains,
            repeat_examples=chosen.repeat_examples,
            seed=config.training.seed if chosen.seed is None else chosen.seed,
            rank=rank(),
            world_size=world_size(),
            across=chosen.across,
        )
    seed_everything(config.training.seed)  # the first weights, the same in every process
    with naming_field("predictor"):
        network = _predictor(config.predictor, train, held_out)
    return Trainer(
        network,
        train,
        phases,
        batches,
        held_out=held_out,
        settings=config.training,
        folder=run_folder(config, output),
        progress=progress,
    )


def _parts(
    config: DataConfig, data_root: str | Path | None
) -> tuple[DomainData, dict[str, DomainData]]:
    """The training data, and what is held out by name."""
    with naming_field("data"):
        whole = dataset(config.dataset, data_root, **config.settings)
        splits = whole.splits(
            test=_domains(config.test),
            validation=_domains(config.validation),
            train=None if config.train is None else _domains(config.train),  # type: ignore[arg-type]
            seed=config.seed,
        )
    train, validation = splits.train, splits.validation
    if config.validation_examples is not None:
        train, validation = train.split_examples(config.validation_examples, config.seed)
    held_out = {"validation": validation, "test": splits.test}
    return train, {name: part for name, part in held_out.items() if part is not None}


def _domains(given: Names | float) -> list[str | int] | float:
    """Names as texts: YAML reads 0.1 and 7 as numbers, and 7 must not mean the eighth domain."""
    if isinstance(given, list):
        return [str(name) for name in given]
    return given


def _predictor(
    config: PredictorConfig, train: DomainData, held_out: dict[str, DomainData]
) -> Predictor:
    for name in ("loss", "outputs", "inputs"):
        if name in config.settings:
            raise SettingError(
                f"settings cannot hold {name}. "
                + ("It follows from the data." if name == "inputs" else f"Give predictor.{name}.")
            )
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
        everything = [train, *held_out.values()]
        outputs = _outputs(loss, [part.y for part in everything])
    example = train.rows(torch.tensor([0])).x
    shape = tuple(example.shape[1:]) if isinstance(example, Tensor) else None
    try:
        return predictor(config.name, shape, outputs, loss=loss, **config.settings)
    except EqrmError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:  # torch: a width of −1, dropout of 2
        chosen = {"outputs": outputs, **config.settings}
        raise SettingError(f"{config.name} cannot be made with {chosen}: {error}.") from None


def _outputs(loss: str, targets: list[Tensor]) -> int:
    """How many outputs the targets need."""
    if loss == "cross-entropy":
        return int(max(y.max() for y in targets)) + 1
    return targets[0].shape[1] if targets[0].ndim > 1 else 1
