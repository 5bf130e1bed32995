"""Gathering risks in one of two gloo processes, which import it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import eqrm
from processes import end_together, meet

SITES = ["Oslo", "Rome", "Lima", "<b>", "😀"]


def losses_and_sites(size: int = 997, offset: float = 0.0) -> tuple[torch.Tensor, list[str]]:
    generator = np.random.default_rng(0)
    losses = offset + generator.lognormal(0, 1, size)
    return torch.tensor(losses, dtype=torch.float64), list(generator.choice(SITES, size))


def gather_in_one_of_two(rank: int, folder: str) -> None:
    """One of two processes: an uneven share of the losses, some sites on one process only."""
    meet(rank, folder)
    losses, sites = losses_and_sites()
    own = [i for i, site in enumerate(sites) if (i % 5 == 0 or site == "Rome") == (rank == 0)]
    gathered = eqrm.evaluation.RiskAccumulator()
    for start in range(0, len(own), 50):
        rows = own[start : start + 50]
        gathered.update(losses[rows], [sites[i] for i in rows])
    nothing = eqrm.evaluation.RiskAccumulator()
    if rank == 0:
        nothing.update(losses, sites)
    found = {
        "split": gathered.compute().to_dict(),
        "again": gathered.compute().to_dict(),
        "on one": nothing.compute().to_dict(),
    }
    gathered.across_processes = False
    found["apart"] = gathered.compute().to_dict()
    torch.save(found, Path(folder) / f"rank-{rank}.pt")
    end_together()
