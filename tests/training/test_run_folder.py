"""The files of a run: with and without the optional packages that write them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from eqrm.errors import MissingExtraError
from eqrm.training import Phase, Trainer
from eqrm.training.runs.run_folder import RunFolder
from training.small_worlds import regression, settings, trainer

PARTS = regression(6).splits(test=["d4", "d5"])


def finished(folder: Path, **changes: object) -> RunFolder:
    trainer(
        data=PARTS.train,
        held_out={"test": PARTS.test},
        folder=folder,
        settings=settings(**changes),
    ).fit()
    return RunFolder(folder)


def test_tensorboard_that_is_asked_for_and_missing_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"eqrm\[tensorboard\]"):
        finished(tmp_path / "asked", tensorboard=True)
    assert finished(tmp_path / "where installed", tensorboard=None).done


def test_frozen_batch_norm_keeps_its_statistics_and_trained_does_not() -> None:
    def statistics(batch_norm: str) -> torch.Tensor:
        network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        trained = Trainer(
            network,
            PARTS.train,
            [Phase("erm", 3)],
            loss="squared",
            settings=settings(batch_norm=batch_norm),
        ).fit()
        return trained.predictor.state_dict()["featurizer.1.running_mean"]

    assert torch.equal(statistics("frozen"), torch.zeros(4))
    assert not torch.equal(statistics("trained"), torch.zeros(4))
