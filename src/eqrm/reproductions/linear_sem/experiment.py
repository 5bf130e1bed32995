"""Every task, repetition and method: the errors of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eqrm.linear.solving.one_thread import one_thread
from eqrm.reproductions.base import Progress
from eqrm.reproductions.linear_sem.chain import HALF, Chain
from eqrm.reproductions.linear_sem.methods import fit_all, limits
from eqrm.reproductions.linear_sem.settings import METHODS, TASKS, Settings, Task


@dataclass(frozen=True, eq=False)
class Findings:
    """``errors`` (tasks, methods, repetitions, 2): causal and non-causal squared error.

    ``chosen`` are the settings that the held-out domain chose, (tasks, methods, repetitions).
    ``limits`` (2, methods, 2) are the mean coefficients of X and of Z for fully observed tasks
    with population moments, homoskedastic first, and ``limit_spread`` how far single
    coefficients are from these means.
    """

    errors: Tensor
    chosen: list[list[list[str]]]
    limits: Tensor
    limit_spread: float

    def mean(self, task: Task, method: str) -> tuple[float, float]:
        """The mean causal and non-causal error."""
        values = self._of(task, method).mean(dim=0)
        return float(values[0]), float(values[1])

    def standard_error(self, task: Task, method: str) -> tuple[float, float]:
        """The standard error of both means."""
        values = self._of(task, method)
        found = values.std(dim=0) / len(values) ** 0.5
        return float(found[0]), float(found[1])

    def gain_over_erm(self, task: Task, method: str) -> tuple[float, float]:
        """How much lower the causal error is than ERM's: paired mean and its standard error."""
        differences = (self._of(task, "ERM") - self._of(task, method))[:, 0]
        return float(differences.mean()), float(differences.std() / len(differences) ** 0.5)

    def _of(self, task: Task, method: str) -> Tensor:
        return self.errors[TASKS.index(task), METHODS.index(method)]


def run_experiment(settings: Settings, seed: int, progress: Progress) -> Findings:
    """All tasks; U and S of a repetition have the same samples in other coordinates."""
    errors = torch.zeros((len(TASKS), len(METHODS), settings.repetitions, 2), dtype=torch.float64)
    chosen = [[[""] * settings.repetitions for _ in METHODS] for _ in TASKS]
    with one_thread():
        for t, task in enumerate(TASKS):
            for r in range(settings.repetitions):
                done = (t * settings.repetitions + r) / (len(TASKS) * settings.repetitions)
                progress(0.9 * done, f"{task.name}, repetition {r + 1}")
                generator = np.random.default_rng([seed, r])
                chain = Chain.draw(task, generator)
                fitted = fit_all(chain.sample(settings.rows, generator))
                for m, method in enumerate(METHODS):
                    coefficients, chosen[t][m][r] = fitted[method]
                    errors[t, m, r, 0], errors[t, m, r, 1] = chain.errors(coefficients.numpy())
        progress(0.9, "limits")
        ends, spread = population_limits(seed)
    return Findings(errors, chosen, ends, spread)


def population_limits(seed: int) -> tuple[Tensor, float]:
    """Mean coefficients of X and Z (2, methods, 2) in the limit, and the largest distance."""
    found = []
    for heteroskedastic in (False, True):
        task = Task(hidden=False, heteroskedastic=heteroskedastic, scrambled=False)
        ends = limits(Chain.draw(task, np.random.default_rng(seed)).population())
        found.append([ends[method].reshape(2, HALF) for method in METHODS])
    stacked = torch.stack([torch.stack(row) for row in found])
    means = stacked.mean(dim=-1)
    return means, float((stacked - means.unsqueeze(-1)).abs().max())
