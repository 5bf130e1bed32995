"""The objectives as modules of Lightning, which takes seconds to load."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from eqrm.data import DomainBatches
from eqrm.objectives import EQRM
from eqrm.predictors import Predictor
from training.small_worlds import regression

DATA, STEPS, EPOCHS, RATE = regression(), 6, 2, 0.01


class OneLine(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """A risk objective in place of the mean."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor
        self.objective = EQRM(0.9)

    def training_step(self, batch: Any, number: int) -> Tensor:
        x, y, domains = batch
        losses = self.predictor.losses(self.predictor(x), y)
        loss: Tensor = self.objective(losses, domains, num_domains=DATA.num_domains)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.predictor.parameters(), lr=RATE)


def fitted(module: Any, folder: Path) -> Any:
    """Lightning's trainer over epochs of ``DomainBatches``."""
    batches = DomainBatches(DATA, 3, 4, seed=1, steps=STEPS // EPOCHS)
    loader = DataLoader(TensorDataset(DATA.x, DATA.y, DATA.domains), batch_sampler=batches)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(module, loader)
    return module
