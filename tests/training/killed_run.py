"""Runs to be killed.

They use everything that a checkpoint must hold: dropout, Adam, a cosine, an average of the
weights, a risk memory, early stopping's watch, random numbers of torch, numpy and Python.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eqrm.data import DomainBatches
from eqrm.objectives import EQRM, RiskMemory
from eqrm.predictors import MLP
from eqrm.training import EarlyStopping, Phase, Trainer
from training.small_worlds import regression, settings

CHECKPOINT_EVERY = 4


class Noisy(MLP):
    """A network with noise from every generator."""

    def features(self, x: Tensor) -> Tensor:
        features = super().features(x)
        if self.training:
            features = features * (1 + 0.01 * random.random() + 0.01 * np.random.rand())  # noqa: NPY002
        return features


def machine(folder: Path, steps: int, width: int) -> Trainer:
    """ERM for a third of the steps, then EQRM with a memory."""
    parts = regression(10, examples=20).splits(validation=["d7", "d8", "d9"])
    minimised = EQRM(0.9, memory=RiskMemory(7, averaging=0.5, denoise=True))
    torch.manual_seed(0)
    return Trainer(
        Noisy(3, 1, width=width, depth=3, dropout=0.1, loss="squared"),
        parts.train,
        [
            Phase("erm", steps // 3, 1e-3),
            Phase(minimised, steps - steps // 3, 1e-3, "cosine", True, "gradient-norm-ratio"),
        ],
        DomainBatches(parts.train, 3, 6, seed=2),
        held_out={"validation": parts.validation},
        settings=settings(
            checkpoint_every=CHECKPOINT_EVERY,
            log_every=1,
            evaluate_every=7,
            weight_average=0.99,
            clip_gradients=5.0,
            early_stopping=EarlyStopping(0.9, patience=10_000),
        ),
        folder=folder,
    )


def run(folder: Path, steps: int, width: int) -> None:
    """What a process that may be killed does."""
    torch.set_num_threads(1)
    machine(folder, steps, width).fit()
