"""Networks of images in channels last, and settings of captured steps; on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eqrm.data import DomainBatches, DomainData
from eqrm.errors import SettingError
from eqrm.objectives.base import OptimizerChoice
from eqrm.predictors import CNN
from eqrm.training import Phase, Trainer
from eqrm.training.runs.run_folder import RunFolder
from training.small_worlds import kill_after, settings


def images() -> DomainData:
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (24, 3, 8, 8), dtype=torch.uint8, generator=draw)
    return DomainData(x, torch.arange(24) % 2, torch.arange(24) % 3, ("a", "b", "c"))


def trainer_of(folder: Path, **changes: object) -> Trainer:
    """On a GPU the trainer itself chooses channels last."""
    torch.manual_seed(0)
    network = CNN(3, 2, loss="cross-entropy").to(memory_format=torch.channels_last)
    data = images()
    batches = DomainBatches(data, 3, 2, seed=0)
    phases = [Phase("erm", 6, 0.01)]
    return Trainer(network, data, phases, batches, folder=folder, settings=settings(**changes))


def test_weights_in_channels_last_are_saved_and_a_run_is_resumed(tmp_path: Path) -> None:
    whole = trainer_of(tmp_path / "whole", checkpoint_every=2).fit()
    saved = RunFolder(tmp_path / "whole").read_weights()
    for name, weight in whole.predictor.state_dict().items():
        assert torch.equal(saved[name], weight)
        assert saved[name].is_contiguous()
    folder = tmp_path / "stopped"
    kill_after(trainer_of(folder, checkpoint_every=2), 4)
    again = trainer_of(folder, checkpoint_every=2)
    resumed = again.fit()
    assert resumed.began_at == 4
    for name, weight in resumed.predictor.state_dict().items():
        assert torch.equal(weight, saved[name])
    assert again.state.optimizers is not None
    kept = again.state.optimizers.by_name["predictor"]
    for parameter, state in kept.state.items():
        assert state["exp_avg"].stride() == parameter.stride()


def test_captured_steps_need_an_optimizer_that_allows_them() -> None:
    with pytest.raises(SettingError, match="cuda_graph needs the optimizer adam or adamw, got sgd"):
        settings(cuda_graph=True, optimizer=OptimizerChoice("sgd"))
