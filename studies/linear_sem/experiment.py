"""ERM, IRM, VREx and EQRM on every task and repetition: the errors of their coefficients.

Settings are chosen as in the code beside the IRM paper: least squares on all three domains; the
others on the first two, with the weight (here also the level) that has the least risk on the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from eqrm import Level, LinearQRM
from eqrm.linear import DomainMoments, LinearERM, LinearIRM, LinearVREx
from studies.linear_sem.chain import HALF, Chain
from studies.linear_sem.settings import (
    EQRM_LEVELS,
    IRM_WEIGHTS,
    LIMIT_LEVELS,
    LIMIT_WEIGHTS,
    METHODS,
    TASKS,
    VREX_WEIGHTS,
    SemSettings,
    SemTask,
)
from studies.outcome import Progress

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SemFindings:
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

    def mean(self, task: SemTask, method: str) -> tuple[float, float]:
        """The mean causal and non-causal error."""
        values = self._of(task, method).mean(dim=0)
        return float(values[0]), float(values[1])

    def standard_error(self, task: SemTask, method: str) -> tuple[float, float]:
        """The standard error of both means."""
        values = self._of(task, method)
        found = values.std(dim=0) / len(values) ** 0.5
        return float(found[0]), float(found[1])

    def gain_over_erm(self, task: SemTask, method: str) -> tuple[float, float]:
        """How much lower the causal error is than ERM's: paired mean and its standard error."""
        differences = (self._of(task, "ERM") - self._of(task, method))[:, 0]
        return float(differences.mean()), float(differences.std() / len(differences) ** 0.5)

    def _of(self, task: SemTask, method: str) -> Tensor:
        return self.errors[TASKS.index(task), METHODS.index(method)]


def run_tasks(settings: SemSettings, seed: int, progress: Progress) -> SemFindings:
    """All tasks; U and S of a repetition have the same samples in other coordinates."""
    errors = torch.zeros((len(TASKS), len(METHODS), settings.repetitions, 2), dtype=torch.float64)
    chosen = [[[""] * settings.repetitions for _ in METHODS] for _ in TASKS]
    with threadpool_limits(1):
        for t, task in enumerate(TASKS):
            for r in range(settings.repetitions):
                done = (t * settings.repetitions + r) / (len(TASKS) * settings.repetitions)
                progress(0.9 * done, f"{task.name}, repetition {r + 1}")
                generator = np.random.default_rng([seed, r])
                chain = Chain.draw(task, generator)
                fitted = fit_each(chain.sample(settings.rows, generator))
                for m, method in enumerate(METHODS):
                    coefficients, chosen[t][m][r] = fitted[method]
                    errors[t, m, r, 0], errors[t, m, r, 1] = chain.errors(coefficients)
        progress(0.9, "limits")
        ends, spread = population_limits(seed)
    return SemFindings(errors, chosen, ends, spread)


def population_limits(seed: int) -> tuple[Tensor, float]:
    """Mean coefficients of X and Z (2, methods, 2) in the limit, and the largest distance."""
    found = []
    for heteroskedastic in (False, True):
        task = SemTask(hidden=False, heteroskedastic=heteroskedastic, scrambled=False)
        ends = _limits(Chain.draw(task, np.random.default_rng(seed)).population())
        found.append([torch.from_numpy(ends[method]).reshape(2, HALF) for method in METHODS])
    stacked = torch.stack([torch.stack(row) for row in found])
    means = stacked.mean(dim=-1)
    return means, float((stacked - means.unsqueeze(-1)).abs().max())


def fit_each(moments: DomainMoments) -> dict[str, tuple[Floats, str]]:
    """Coefficients (10,) of every method and the setting that was chosen."""
    train, held_out = moments.subset(moments.names[:2]), moments.subset(moments.names[2:])
    candidates = {
        "IRM": (_penalised(LinearIRM, train, IRM_WEIGHTS), [f"{w:g}" for w in IRM_WEIGHTS]),
        "VREx": (_penalised(LinearVREx, train, VREX_WEIGHTS), [f"{w:g}" for w in VREX_WEIGHTS]),
        "EQRM": (_levels(train, EQRM_LEVELS), [str(level) for level in EQRM_LEVELS]),
    }
    chosen = {"ERM": (LinearERM(fit_intercept=False).fit(moments).coef_, "")}
    for name, (found, settings) in candidates.items():
        risks = [held_out.risks(each).item() for each in found]
        best = risks.index(min(risks))
        chosen[name] = (found[best], settings[best])
    return chosen


def _limits(moments: DomainMoments) -> dict[str, Floats]:
    """Where each method ends with all three domains, as its weight or level grows."""
    return {
        "ERM": LinearERM(fit_intercept=False).fit(moments).coef_,
        "IRM": _penalised(LinearIRM, moments, LIMIT_WEIGHTS)[-1],
        "VREx": _penalised(LinearVREx, moments, LIMIT_WEIGHTS)[-1],
        "EQRM": _levels(moments, LIMIT_LEVELS)[-1],
    }


def _penalised(
    model: type[LinearIRM] | type[LinearVREx], moments: DomainMoments, weights: Sequence[float]
) -> list[Floats]:
    """Coefficients for each weight, the penalty raised step by step from least squares."""
    found = [LinearERM(fit_intercept=False).fit(moments).coef_]
    for weight in weights:
        start = [found[-1].tolist()]
        penalised = model(weight, fit_intercept=False, starts=start, max_steps=1000)
        found.append(penalised.fit(moments).coef_)
    return found[1:]


def _levels(moments: DomainMoments, wanted: Sequence[Level]) -> list[Floats]:
    """EQRM's coefficients for each level."""
    return list(LinearQRM(fit_intercept=False).path(wanted, moments).coefficients)
