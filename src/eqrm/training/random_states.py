"""The states of all random generators: torch (CPU and CUDA), numpy and Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int, process: int = 0) -> None:
    """Seed every generator; processes draw different numbers (their dropout masks differ).

    >>> seed_everything(0)
    >>> first = torch.rand(1)
    >>> seed_everything(0)
    >>> torch.equal(first, torch.rand(1))
    True
    """
    words = np.random.SeedSequence([seed, process]).generate_state(3)
    torch.manual_seed(int(words[0]))
    np.random.seed(int(words[1]))  # noqa: NPY002 - users' transforms draw from it
    random.seed(int(words[2]))


def random_states() -> dict[str, Any]:
    """The state of every generator of this process.

    >>> states = random_states()
    >>> first = (torch.rand(1), np.random.rand(), random.random())
    >>> set_random_states(states)
    >>> first == (torch.rand(1), np.random.rand(), random.random())
    True
    """
    version, internal, gauss = random.getstate()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return {
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state(device) for device in devices],
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "python": {"version": version, "internal": np.array(internal), "gauss": gauss},
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Put every generator back where :func:`random_states` found it."""
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"]):
        if device < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])  # noqa: NPY002
    python = states["python"]
    random.setstate((python["version"], tuple(python["internal"].tolist()), python["gauss"]))
