"""Many steps and many evaluations in one process: memory, open files and threads afterwards.

python -m adversarial.leaks 10000 500
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import eqrm
from eqrm.data import DomainBatches
from eqrm.errors import EqrmError
from eqrm.objectives import RiskMemory
from eqrm.training import Phase, Trainer
from training.small_worlds import network, regression, settings


@dataclass
class Left:
    """What was there before and after: megabytes, open files, threads."""

    done: int
    megabytes_early: float
    megabytes_late: float
    files_before: int
    files_after: int
    threads_before: int
    threads_after: int

    @property
    def grown(self) -> float:
        """Megabytes of memory more than early on."""
        return self.megabytes_late - self.megabytes_early


def megabytes() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_files() -> int:
    """How many file descriptors this process has."""
    gc.collect()
    return len(os.listdir("/dev/fd"))


def after_steps(steps: int) -> Left:
    """A run of the trainer with a risk memory, evaluated and logged all the time."""
    data = regression(20, examples=30)
    files, threads = open_files(), threading.active_count()
    seen: list[tuple[int, float]] = []
    objective = eqrm.EQRM(0.9, memory=RiskMemory(20))
    with tempfile.TemporaryDirectory() as folder:
        predictor = network()
        trainer = Trainer(
            predictor,
            data,
            [Phase("erm", steps // 5, 1e-3), Phase(objective, steps - steps // 5, 1e-3)],
            DomainBatches(data, 5, 8, seed=1),
            settings=settings(evaluate_every=200, log_every=20, checkpoint_every=500),
            folder=Path(folder),
        )
        hook = predictor.register_forward_hook(noting(seen))
        trainer.fit()
        hook.remove()
        del trainer
    early = next(size for step, size in seen if step >= steps // 4)
    counts = (files, open_files(), threads, threading.active_count())
    return Left(steps, early, seen[-1][1], *counts)


def noting(seen: list[tuple[int, float]]) -> Callable[..., None]:
    """Notes the memory at every tenth of its calls."""
    calls = count(1)

    def note(*_: object) -> None:
        if (number := next(calls)) % 10 == 0:
            seen.append((number, megabytes()))

    return note


def after_evaluations(number: int) -> Left:
    """Evaluations of a file, a frame and a file that is refused, each with its table."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"d": np.repeat(np.arange(30), 10), "loss": rng.random(300)})
    with tempfile.TemporaryDirectory() as folder:
        path, wrong = Path(folder) / "rows.csv", Path(folder) / "wrong.csv"
        frame.to_csv(path, index=False)
        wrong.write_text("d,loss\n1,x\n")

        def evaluate(turn: int) -> None:
            eqrm.evaluate((path, frame)[turn % 2], domains="d", losses="loss").certificate(0.5)
            try:
                eqrm.evaluate(wrong, domains="d", losses="loss")
            except EqrmError:
                return
            raise AssertionError("a loss that is not a number was accepted")

        for turn in range(4):
            evaluate(turn)
        files, threads, early = open_files(), threading.active_count(), megabytes()
        for turn in range(number):
            evaluate(turn)
            if turn == number // 4:
                early = megabytes()
        counts = (files, open_files(), threads, threading.active_count())
    return Left(number, early, megabytes(), *counts)


if __name__ == "__main__":
    torch.set_num_threads(1)
    done = {
        "steps": after_steps(int(sys.argv[1])),
        "evaluations": after_evaluations(int(sys.argv[2])),
    }
    print(json.dumps({name: {**asdict(left), "grown": left.grown} for name, left in done.items()}))
