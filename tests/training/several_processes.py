"""Training that several processes share, as a program for ``torchrun``.

    python several_processes.py FOLDER STEPS OBJECTIVE…                       # one process
    torchrun --nproc-per-node 2 several_processes.py FOLDER STEPS OBJECTIVE…

Every objective is trained in every layout; its losses, weights and held-out risks are written to
``FOLDER/world-N.json``, for a comparison of different numbers of processes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eqrm.data import DomainBatches
from eqrm.errors import EqrmError
from eqrm.objectives import EQRM, ERM, GroupDRO, Objective, RiskMemory, Superquantile, VREx
from eqrm.predictors import MLP
from eqrm.training import Phase, Trainer
from eqrm.training.processes import process_group, rank, world_size
from eqrm.training.runs.run_folder import RunFolder
from training.small_worlds import (
    classification,
    kill_after,
    network,
    regression,
    settings,
    weights,
)

DOMAINS = 7
PARTS = regression(DOMAINS + 3, examples=24).splits(test=["d7", "d8", "d9"])

OBJECTIVES: dict[str, Callable[[], Objective]] = {
    "erm": ERM,
    "eqrm": lambda: EQRM(0.9),
    "eqrm-deep": lambda: EQRM("1-e^-1000"),
    "eqrm-gaussian": lambda: EQRM(0.9, "gaussian"),
    "eqrm-memory": lambda: EQRM(0.9, memory=RiskMemory(DOMAINS)),
    "eqrm-denoise": lambda: EQRM(0.9, memory=RiskMemory(DOMAINS, averaging=0.5, denoise=True)),
    "superquantile": lambda: Superquantile(0.6, "kde"),
    "groupdro": lambda: GroupDRO(0.1),
    "vrex": lambda: VREx(1.0),
}
LAYOUTS = {
    "domains": {"domains_per_batch": 5, "examples_per_domain": 6},
    "examples": {"domains_per_batch": 3, "examples_per_domain": 7},
}
"""Whole domains per process, an odd number of them; and every domain split over processes."""


def machine(
    name: str, across: str, steps: int, folder: Path, dropout: float = 0.0, every: int | None = None
) -> Trainer:
    """ERM for a third of the steps, then the objective, scaled as the published code does."""
    batches = DomainBatches(
        PARTS.train,
        seed=5,
        rank=rank(),
        world_size=world_size(),
        across=across,
        **LAYOUTS[across],
    )
    first = steps // 3
    phases = [
        Phase("erm", first, 0.01),
        Phase(OBJECTIVES[name](), steps - first, 0.01, "cosine", True, "gradient-norm-ratio"),
    ]
    chosen = settings(
        log_every=1,
        checkpoint_every=every,
        clip_gradients=10.0,
        weight_average=0.9,
        evaluate_every=10,
    )
    return Trainer(
        network(dropout=dropout),
        PARTS.train,
        phases,
        batches,
        held_out={"test": PARTS.test},
        settings=chosen,
        folder=folder,
    )


def trained(name: str, across: str, steps: int, folder: Path) -> dict[str, Any]:
    """The loss of every step, the weights and risks it ends with."""
    found = machine(name, across, steps, folder).fit(resume=False)
    return {
        "losses": [r["loss"] for r in RunFolder(folder).metrics() if "loss" in r],
        "weights": weights(found.predictor).tolist(),
        "risks": found.risks["test"].risks.tolist(),
        "variances": found.risks["test"].variances.tolist(),
    }


def resumed_is_the_same(folder: Path, steps: int) -> bool:
    """With dropout, whose masks differ between processes: killed, resumed, compared."""

    def again(name: str) -> Trainer:
        return machine("eqrm-denoise", "domains", steps, folder / name, dropout=0.3, every=4)

    whole, killed = again("whole").fit(), again("killed")
    kill_after(killed, steps - 3)
    return torch.equal(weights(whole.predictor), weights(again("killed").fit().predictor))


def metrics(names: tuple[str, ...] = ("macro-f1", "roc-auc")) -> dict[str, Any]:
    """Metrics of held-out data; one split has a single example, fewer than there are processes."""
    parts = classification(6, examples=9).splits(test=["d4", "d5"])
    assert parts.test is not None
    held_out = {"test": parts.test, "one": parts.test.at(torch.tensor([0]))}
    batches = DomainBatches(parts.train, 4, 4, seed=5, rank=rank(), world_size=world_size())
    torch.manual_seed(0)
    found = Trainer(
        MLP(4, 3, width=8),
        parts.train,
        [Phase("erm", 3)],
        batches,
        held_out=held_out,
        settings=settings(metrics=list(names)),
    ).fit()
    return {
        split: {name: each.to_dict() for name, each in risks.metrics.items()}
        for split, risks in found.risks.items()
    }


def refusals() -> dict[str, str]:
    """What several processes refuse before they start."""
    batches = DomainBatches(PARTS.train, rank=rank(), world_size=world_size())
    messages = {}
    for name, network_, phases in (
        ("irm", network(), [Phase("irm", 3)]),
        ("dann", network(), [Phase("erm", 3), Phase("dann", 3)]),
        ("batch norm", with_batch_norm(), [Phase("erm", 3)]),
    ):
        try:
            chosen = settings()
            loss = "squared" if name == "batch norm" else None
            Trainer(network_, PARTS.train, phases, batches, settings=chosen, loss=loss)
        except EqrmError as error:
            messages[name] = str(error)
    return messages


def with_batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))


def main(folder: Path, steps: int, objectives: list[str]) -> None:
    torch.set_num_threads(1)
    with process_group():
        found: dict[str, Any] = {
            f"{name}, {across}": trained(name, across, steps, folder / f"runs-{world_size()}")
            for across in LAYOUTS
            for name in objectives
        }
        extra = {
            "resumed": resumed_is_the_same(folder / f"resumed-{world_size()}", 12),
            "refusals": refusals(),
            "metrics": metrics(),
        }
        if rank() == 0:
            content = {"cases": found, **extra}
            (folder / f"world-{world_size()}.json").write_text(json.dumps(content))


def one_of_several(rank: int, processes: int, port: int, *arguments: Any) -> None:
    """What one of several processes does that ``torchrun`` did not start."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(processes),
        LOCAL_WORLD_SIZE=str(processes),
        MASTER_ADDR="localhost",
        MASTER_PORT=str(port),
    )
    main(*arguments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
