"""The objectives inside Lightning: the one line takes the steps of a plain loop."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from eqrm.data import DomainBatches
from eqrm.objectives import EQRM
from training.small_worlds import network, regression, weights

DATA, STEPS, EPOCHS, RATE = regression(), 6, 2, 0.01


@pytest.mark.xdist_group("lightning")  # loaded by one worker, in seconds, when this test needs it
def test_the_one_line_in_lightning_takes_the_steps_of_a_plain_loop(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning = pytest.importorskip(
            "lightning", reason="Lightning is not installed (pip install 'eqrm[lightning]')"
        )

    class OneLine(lightning.LightningModule):  # type: ignore[misc, name-defined]
        """A risk objective in place of the mean."""

        def __init__(self) -> None:
            super().__init__()
            self.predictor, self.objective = network(), EQRM(0.9)

        def training_step(self, batch: Any, number: int) -> Tensor:
            x, y, domains = batch
            losses = self.predictor.losses(self.predictor(x), y)
            loss: Tensor = self.objective(losses, domains, num_domains=DATA.num_domains)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.predictor.parameters(), lr=RATE)

    module, batches = OneLine(), DomainBatches(DATA, 3, 4, seed=1, steps=STEPS // EPOCHS)
    loader = DataLoader(TensorDataset(DATA.x, DATA.y, DATA.domains), batch_sampler=batches)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        ).fit(module, loader)

    by_hand, minimised, batches = network(), EQRM(0.9), DomainBatches(DATA, 3, 4, seed=1)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=RATE)
    for _ in range(STEPS):
        rows = next(batches)
        losses = by_hand.losses(by_hand(DATA.x[rows]), DATA.y[rows])
        optimizer.zero_grad()
        minimised(losses, DATA.domains[rows], DATA.num_domains).backward()
        optimizer.step()
    torch.testing.assert_close(weights(module.predictor), weights(by_hand))
