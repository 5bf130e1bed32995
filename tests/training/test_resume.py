"""Exact resume: a run that is stopped anywhere and started again is the same run."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from eqrm.data import DomainBatches
from eqrm.errors import CheckpointError, DomainDataError, SettingError
from eqrm.objectives import DANN, EQRM, IRM, GroupDRO, RiskMemory
from eqrm.training import EarlyStopping, Phase, Trainer
from eqrm.training.processes import TrainingInterrupted
from eqrm.training.runs.checkpoint import (
    Checkpoints,
    DamagedCheckpointWarning,
    read_checkpoint,
    write_checkpoint,
)
from training.small_worlds import (
    before_steps,
    kill_after,
    network,
    regression,
    settings,
    trainer,
    weights,
)

DATA = regression(6)
PARTS = DATA.splits(validation=["d4", "d5"])


def everything(folder: Path, minimised: object = None, **changes: object) -> Trainer:
    """Dropout, an average, early stopping, a cosine and a memory, saved at every second step."""
    chosen = minimised or EQRM(0.9, memory=RiskMemory(4, averaging=0.5, denoise=True))
    phases = [
        Phase("erm", 5, 0.01),
        Phase(chosen, 8, 0.01, schedule="cosine", loss_scaling="none", fresh_optimizer=False),  # type: ignore[arg-type]
    ]
    choice = {
        "checkpoint_every": 2,
        "evaluate_every": 3,
        "log_every": 1,
        "weight_average": 0.9,
        "clip_gradients": 1.0,
        "early_stopping": EarlyStopping(0.9, patience=100),
        **changes,
    }
    return trainer(
        network(dropout=0.3),
        PARTS.train,
        phases,
        DomainBatches(PARTS.train, 2, 5, seed=3),
        held_out={"validation": PARTS.validation},
        folder=folder,
        settings=settings(**choice),
    )


FULL = pytest.mark.full
STEPS = [pytest.param(s, marks=() if s in (0, 5, 6, 12) else FULL) for s in range(13)]


@pytest.mark.unmeasured
@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at_any_step_ends_bit_for_bit_the_same(tmp_path: Path, step: int) -> None:
    whole = everything(tmp_path / "whole").fit()
    kill_after(everything(tmp_path / "killed"), step)
    torch.rand(7)  # what happens in between must not matter
    resumed = everything(tmp_path / "killed").fit()
    assert torch.equal(weights(whole.predictor), weights(resumed.predictor))
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "killed")]
    assert metrics[0] == metrics[1]
    assert resumed.risks["validation"].risks.tolist() == whole.risks["validation"].risks.tolist()


@pytest.mark.parametrize("make", [lambda: GroupDRO(0.1), lambda: DANN(width=8, dropout=0.2)])
def test_buffers_and_networks_of_objectives_are_resumed(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    whole = everything(tmp_path / "whole", make()).fit()
    kill_after(everything(tmp_path / "killed", make()), 10)
    resumed = everything(tmp_path / "killed", make()).fit()
    assert torch.equal(weights(whole.predictor), weights(resumed.predictor))


def test_without_resume_the_run_begins_again(tmp_path: Path) -> None:
    kill_after(everything(tmp_path), 7)
    again = everything(tmp_path)
    steps: list[int] = []
    before_steps(again, lambda: steps.append(1))
    again.fit(resume=False)
    assert len(steps) == 13
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert len([line for line in lines if '"loss"' in line]) == 13


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    whole = everything(tmp_path / "whole").fit()
    kill_after(everything(tmp_path / "killed"), 9)
    newest = Checkpoints(tmp_path / "killed" / "checkpoint").paths()[-1]
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1  # one bit of one tensor
    newest.write_bytes(content)
    with pytest.warns(DamagedCheckpointWarning, match=r"checksum\. .* from step-000000006"):
        resumed = everything(tmp_path / "killed").fit()
    assert torch.equal(weights(whole.predictor), weights(resumed.predictor))


def test_checkpoints_that_are_all_damaged_are_an_error(tmp_path: Path) -> None:
    kill_after(everything(tmp_path), 9)
    for path in Checkpoints(tmp_path / "checkpoint").paths():
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="not a checkpoint of eqrm, or it is damaged"):
        everything(tmp_path).fit()


def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    kill_after(everything(tmp_path), 9)
    with pytest.raises(CheckpointError, match=r"its settings\.clip_gradients is 1\.0"):
        everything(tmp_path, clip_gradients=2.0).fit()
    with pytest.raises(
        CheckpointError, match=r"another run: its phases\[1\].hyperparameters.alpha is 0.9"
    ):
        everything(tmp_path, EQRM(0.8)).fit()
    with pytest.raises(CheckpointError, match=r"phases\[1\].memory.averaging is 0.5"):
        everything(tmp_path, EQRM(0.9, memory=RiskMemory(4, averaging=0.4, denoise=True))).fit()


def test_a_folder_that_another_run_writes_to_is_refused(tmp_path: Path) -> None:
    first, refusals = everything(tmp_path), []

    def while_training() -> None:
        if first.state.step == 3:
            with pytest.raises(SettingError, match="Another process is training in") as refused:
                everything(tmp_path).fit()
            refusals.append(refused)

    before_steps(first, while_training)
    first.fit()
    assert refusals
    everything(tmp_path).fit()  # free again


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.pop("training"),
        lambda state: state.pop("metrics_size"),
        lambda state: state.update(metrics_size="many"),
        lambda state: state.update(metrics_size=-1),
        lambda state: state["training"].update(step=10**9),
        lambda state: state["training"].update(step=-1),
        lambda state: state["training"].update(divisor="one"),
    ],
)
def test_whole_files_that_hold_no_run_are_refused(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    kill_after(everything(tmp_path), 5)
    for path in Checkpoints(tmp_path / "checkpoint").paths():
        state = read_checkpoint(path)
        damage(state)
        write_checkpoint(path, state)
    with pytest.raises(CheckpointError, match="cannot be used"):
        everything(tmp_path).fit()


def test_metrics_that_lost_lines_are_noticed(tmp_path: Path) -> None:
    kill_after(everything(tmp_path), 9)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="lines were removed"):
        everything(tmp_path).fit()


def test_ctrl_c_finishes_the_step_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    whole = everything(tmp_path / "whole").fit()
    machine = everything(tmp_path / "stopped", checkpoint_every=1000)

    def press() -> None:
        if machine.state.step == 6:
            signal.raise_signal(signal.SIGINT)

    before_steps(machine, press)
    with pytest.raises(
        TrainingInterrupted, match=r"after step 7 of 13\. Saved in .*start the same"
    ):
        machine.fit()
    resumed = everything(tmp_path / "stopped", checkpoint_every=1000).fit()
    assert torch.equal(weights(whole.predictor), weights(resumed.predictor))


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    machine = everything(tmp_path, IRM(1.0), log_every=100, evaluate_every=100)
    take = machine._take_step

    def spoil(*arguments):  # type: ignore[no-untyped-def]
        losses = take(*arguments)
        if machine.state.step == 9:
            next(machine.state.predictor.parameters()).data.fill_(torch.nan)
        return losses

    machine._take_step = spoil  # type: ignore[method-assign]
    with pytest.raises(DomainDataError, match="not finite after step 10"):
        machine.fit()
    steps = [path.name for path in Checkpoints(tmp_path / "checkpoint").paths()]
    assert steps == ["step-000000006.safetensors", "step-000000008.safetensors"]
