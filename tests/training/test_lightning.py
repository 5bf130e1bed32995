"""The objectives inside Lightning: the one line, and objectives that need more than losses."""

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
from eqrm.objectives import EQRM, Batch, Objective, objective
from eqrm.predictors import MLP, Predictor
from eqrm.training import OptimizerChoice
from training.small_worlds import network, regression, weights

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip(
        "lightning", reason="Lightning is not installed (pip install 'eqrm[lightning]')"
    )

DATA, STEPS, RATE = regression(), 6, 0.01


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


class EveryObjective(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """Any objective: its updates, each applied before the next is computed."""

    automatic_optimization = False

    def __init__(self, predictor: Predictor, minimised: Objective) -> None:
        super().__init__()
        self.predictor = minimised.prepare(predictor, DATA.num_domains)
        self.objective = minimised
        self.names = ["predictor", *minimised.optimizer_settings(self.predictor)]

    def training_step(self, batch: Any, number: int) -> None:
        x, y, domains = batch
        found = self.optimizers()  # one, or a list of several
        owned = found if isinstance(found, list) else [found]
        optimizers = dict(zip(self.names, owned, strict=True))
        part = Batch(x, y, domains, DATA.num_domains)
        for update in self.objective.updates(part, self.predictor, self.global_step):
            gradients = torch.autograd.grad(update.loss, update.parameters, allow_unused=True)
            for parameter, gradient in zip(update.parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizers[update.optimizer].step()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        own = self.objective.optimizer_settings(self.predictor)
        return [
            torch.optim.Adam(self.predictor.parameters(), lr=RATE),
            *(
                (each.choice or OptimizerChoice()).make(each.parameters, RATE)
                for each in own.values()
            ),
        ]


def fitted(module: Any, folder: Path) -> Any:
    """Lightning's trainer over the rows that ``DomainBatches`` draws."""
    batches = DomainBatches(DATA, 3, 4, seed=1)
    rows = [next(batches).tolist() for _ in range(STEPS)]
    loader = DataLoader(TensorDataset(DATA.x, DATA.y, DATA.domains), batch_sampler=rows)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_steps=10**6,
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(module, loader)
    return module


def test_the_one_line_in_lightning_takes_the_steps_of_a_plain_loop(tmp_path: Path) -> None:
    module = fitted(OneLine(network()), tmp_path)

    by_hand, minimised, batches = network(), EQRM(0.9), DomainBatches(DATA, 3, 4, seed=1)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=RATE)
    for _ in range(STEPS):
        rows = next(batches)
        losses = by_hand.losses(by_hand(DATA.x[rows]), DATA.y[rows])
        optimizer.zero_grad()
        minimised(losses, DATA.domains[rows], DATA.num_domains).backward()
        optimizer.step()
    torch.testing.assert_close(weights(module.predictor), weights(by_hand))


@pytest.mark.parametrize("name", ["irm", "coral", "dann", "mtl"])
def test_objectives_that_need_more_than_losses_train_in_lightning(
    tmp_path: Path, name: str
) -> None:
    torch.manual_seed(0)
    module = EveryObjective(MLP(3, 1, width=8, loss="squared"), objective(name))
    before = weights(module.predictor)
    fitted(module, tmp_path)
    assert not torch.equal(before, weights(module.predictor))
    assert bool(weights(module.predictor).isfinite().all())
