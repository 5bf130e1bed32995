"""The objectives inside Lightning: the one line, and objectives that need more than losses."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from eqrm.data import DomainBatches
from eqrm.objectives import EQRM
from training.small_worlds import network, weights

pytestmark = pytest.mark.xdist_group("lightning")  # loaded by one worker, when a test needs it


@pytest.fixture(scope="module")
def modules() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(
            "lightning", reason="Lightning is not installed (pip install 'eqrm[lightning]')"
        )
        return importlib.import_module("training.lightning_modules")


def test_the_one_line_in_lightning_takes_the_steps_of_a_plain_loop(
    modules: Any, tmp_path: Path
) -> None:
    module = modules.fitted(modules.OneLine(network()), tmp_path)
    data = modules.DATA

    by_hand, minimised, batches = network(), EQRM(0.9), DomainBatches(data, 3, 4, seed=1)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=modules.RATE)
    for _ in range(modules.STEPS):
        rows = next(batches)
        losses = by_hand.losses(by_hand(data.x[rows]), data.y[rows])
        optimizer.zero_grad()
        minimised(losses, data.domains[rows], data.num_domains).backward()
        optimizer.step()
    torch.testing.assert_close(weights(module.predictor), weights(by_hand))
