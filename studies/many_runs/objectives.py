"""The objective of every run of a stack, from what all of them measured in one step.

Losses are binary cross-entropies of one logit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from eqrm import EQRM, ERM, Phase
from eqrm.errors import SettingError
from eqrm.objectives import IGA, IRM, SD, GroupDRO, LossScaling, Objective, VREx

BY_VALUES = (ERM, VREx, GroupDRO, IRM, SD, IGA)
"""Objectives that their hyperparameters define, evaluated for all runs that have them."""


def objective_key(objective: Objective) -> Hashable:
    """Equal for objectives that are the same function."""
    if type(objective) in BY_VALUES and not getattr(objective, "unbiased", False):
        values = (getattr(objective, name) for name in objective.hyperparameters)
        return (objective.name, *values)
    if type(objective) is EQRM and _is_plain(objective):
        options = sorted((name, str(value)) for name, value in (objective.options or {}).items())
        level, rule = objective.level.log_tail, str(objective.bandwidth)
        return ("eqrm", level, str(objective.distribution), rule, *options)
    raise SettingError(f"{objective.name} cannot be minimised in a stack of runs.")


def phase_key(phase: Phase) -> Hashable:
    """Equal for phases that do the same to the same network."""
    return (
        objective_key(phase.minimised),
        phase.length,
        phase.rate(),
        phase.schedule or "constant",
        phase.fresh_optimizer,
        phase.loss_scaling,
    )


def _is_plain(objective: EQRM) -> bool:
    """Whether level, distribution and bandwidth, given by name, say everything."""
    named = isinstance(objective.distribution, str)
    named = named and isinstance(objective.bandwidth, (str, float))
    options = (objective.options or {}).values()
    return named and objective.weights is None and all(isinstance(o, str) for o in options)


@dataclass(frozen=True)
class MeasuredStep:
    """What R runs measured in a step.

    ``outputs`` (R, n, k) of rows of which those of each domain follow each other, ``sizes`` of
    them, targets ``y`` (R, n, …), ``losses`` (R, n) and ``risks`` (R, m), differentiable in the
    outputs.
    """

    outputs: Tensor
    y: Tensor
    losses: Tensor
    risks: Tensor
    sizes: Sequence[int]

    def of(self, runs: Tensor) -> MeasuredStep:
        """Of some of the runs."""
        return replace(
            self,
            outputs=self.outputs[runs],
            y=self.y[runs],
            losses=self.losses[runs],
            risks=self.risks[runs],
        )

    def means_by_rows(self, values: Tensor) -> Tensor:
        """(R, m) means over each domain's examples of values (R, n), summed in float64."""
        return means_by_rows(values, self.sizes)


def means_by_rows(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """(R, m) means of values (R, n) over consecutive rows, summed in float64."""
    parts = [part.double().mean(1) for part in values.split(list(sizes), dim=1)]
    return torch.stack(parts, dim=1).to(torch.promote_types(values.dtype, torch.float32))


class StackedObjectives:
    """What each run of a stack minimises; objectives of one kind are evaluated together."""

    def __init__(self, objectives: Sequence[Objective], device: torch.device) -> None:
        kinds: dict[Hashable, list[int]] = {}
        for position, objective in enumerate(objectives):
            by_values = type(objective) in BY_VALUES
            key = type(objective) if by_values else objective_key(objective)
            kinds.setdefault(key, []).append(position)
        self.groups = [
            (_evaluation([objectives[p] for p in positions], device), positions)
            for positions in kinds.values()
        ]
        self.device = device
        self._number()

    def keep(self, alive: int) -> None:
        """Go on with the first ``alive`` runs only."""
        kept = []
        for value, positions in self.groups:
            left = [p for p in positions if p < alive]
            if left:
                kept.append((value.keep(len(left)), left))
        self.groups = kept
        self._number()

    def _number(self) -> None:
        order = torch.tensor([p for _, positions in self.groups for p in positions])
        self.places = order.argsort().to(self.device)
        self.rows = [torch.tensor(p, device=self.device) for _, p in self.groups]

    def __call__(self, measured: MeasuredStep) -> Tensor:
        """(R,) objectives; each depends on its own run only. Of IGA, without its penalty."""
        if len(self.groups) == 1:
            return self.groups[0][0](measured)
        parts = [
            value(measured.of(rows))
            for (value, _), rows in zip(self.groups, self.rows, strict=True)
        ]
        return torch.cat(parts)[self.places]


class _Evaluation:
    """Objectives of one kind, with a ``weight`` for every run that has one."""

    def __init__(self, objectives: Sequence[Objective], name: str, device: torch.device) -> None:
        values = [float(getattr(objective, name)) for objective in objectives] if name else []
        self.first = objectives[0]
        self.weights = torch.tensor(values, dtype=torch.float64, device=device)

    def keep(self, runs: int) -> _Evaluation:
        """Of the first runs."""
        self.weights = self.weights[:runs]
        return self

    def __call__(self, measured: MeasuredStep) -> Tensor:
        """(R,) the objective of every run: the mean risk, and a penalty where there is one."""
        mean = measured.risks.mean(-1)
        penalty = self.penalty(measured)
        if penalty is None:
            return mean
        return mean + self.weights.to(mean.dtype) * penalty

    def penalty(self, measured: MeasuredStep) -> Tensor | None:
        """(R,) what is multiplied by the weights."""
        return None


class _VREx(_Evaluation):
    def penalty(self, measured: MeasuredStep) -> Tensor:
        return measured.risks.var(-1, unbiased=False)


class _SD(_Evaluation):
    def penalty(self, measured: MeasuredStep) -> Tensor:
        return measured.means_by_rows(measured.outputs.square().mean(-1)).mean(-1)


class _IRM(_Evaluation):
    """The derivative of a risk in a scale on the logits f is the mean of (σ(f) − y)·f."""

    def penalty(self, measured: MeasuredStep) -> Tensor:
        logits = measured.outputs[..., 0]
        labels = measured.y.reshape(logits.shape).to(logits)
        return measured.means_by_rows((logits.sigmoid() - labels) * logits).square().mean(-1)


class _GroupDRO(_Evaluation):
    """Weights of the domains, a row for every run, that follow the risks."""

    shares: Tensor | None = None

    def keep(self, runs: int) -> _Evaluation:
        if self.shares is not None:
            self.shares = self.shares[:runs]
        return super().keep(runs)

    def __call__(self, measured: MeasuredStep) -> Tensor:
        risks = measured.risks
        wide = risks.detach().double()
        if self.shares is None:
            self.shares = torch.full_like(wide, 1.0 / wide.shape[1])
        steps = self.weights.unsqueeze(1) * (wide - wide.amax(1, keepdim=True))
        moved = self.shares * steps.exp()
        moved = moved / moved.sum(1, keepdim=True)
        usable = moved.isfinite().all(1, keepdim=True)
        self.shares = torch.where(usable, moved, self.shares)
        return (self.shares * risks).sum(1).to(risks.dtype)


class _EQRM(_Evaluation):
    """All runs of a level together."""

    def __call__(self, measured: MeasuredStep) -> Tensor:
        return cast(EQRM, self.first).of_risks(measured.risks)


def _evaluation(objectives: Sequence[Objective], device: torch.device) -> _Evaluation:
    known: dict[type, tuple[type[_Evaluation], str]] = {
        ERM: (_Evaluation, ""),
        IGA: (_Evaluation, "penalty_weight"),
        VREx: (_VREx, "penalty_weight"),
        SD: (_SD, "penalty_weight"),
        IRM: (_IRM, "penalty_weight"),
        GroupDRO: (_GroupDRO, "step_size"),
        EQRM: (_EQRM, ""),
    }
    kind, name = known[type(objectives[0])]
    # An objective that keeps state needs a copy of its own.
    own = [copy.deepcopy(objectives[0]).to(device).train(), *objectives[1:]]
    return kind(own, name, device)


def loss_divisors(
    phases: Sequence[Phase],
    objectives: StackedObjectives,
    measured: MeasuredStep,
    norms: Callable[[Tensor], Tensor],
    erm_norms: Tensor,
) -> Tensor:
    """(R,) what the phases' loss scalings divide the losses by, as measured in a step.

    ``norms`` maps values (R,) to the norms of their gradients in the parameters; ``erm_norms``
    (R,) are those of ERM at the first step of the runs.
    """
    risks = measured.risks
    ones = torch.ones(len(phases), dtype=risks.dtype, device=risks.device)
    if all(phase.loss_scaling == "none" for phase in phases):
        return ones
    ratio, by_norm = ones, [phase.loss_scaling == "gradient-norm-ratio" for phase in phases]
    if any(by_norm):
        objectives = copy.deepcopy(objectives)  # measuring must not move GroupDRO's weights
        new = norms(objectives(measured))
        ratio = torch.where((new > 0) & (erm_norms > 0), new / erm_norms, 1.0).to(risks.dtype)
    fixed = [
        1.0 if here else LossScaling(phase.loss_scaling).divisor(phase.minimised)
        for here, phase in zip(by_norm, phases, strict=True)
    ]
    given = torch.tensor(fixed, dtype=risks.dtype, device=risks.device)
    return torch.where(torch.tensor(by_norm, device=risks.device), ratio, given)
