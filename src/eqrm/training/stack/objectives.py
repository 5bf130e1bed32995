"""The objective of every run of a stack, from the risks (R, m) of all of them."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from eqrm.errors import SettingError
from eqrm.objectives.base import Objective, Phase
from eqrm.objectives.loss_scaling import GRADIENT_RATIO, LossScaling
from eqrm.objectives.risk_based import EQRM, ERM
from eqrm.objectives.risk_objective import RiskObjective


def checked_phase(phase: Phase) -> RiskObjective:
    """The objective of a phase, if a stack can train with it."""
    objective = phase.minimised
    if not isinstance(objective, RiskObjective):
        raise SettingError(
            f"Runs are trained together with objectives that are functions of the risks (ERM, "
            f"EQRM, VREx, …); {type(objective).__name__} needs more. Train its runs one by one."
        )
    if getattr(objective, "memory", None) is not None:
        raise SettingError(
            "A stack's batches hold every domain, so an objective cannot have a memory there. "
            "Leave out the memory."
        )
    return objective


def objective_key(objective: Objective) -> Hashable:
    """Equal for objectives that are the same function of the risks."""
    if type(objective) is ERM:
        return "erm"
    if type(objective) is EQRM and _is_plain(objective):
        level = objective.level.log_tail
        return ("eqrm", level, str(objective.distribution), str(objective.bandwidth))
    return id(objective)


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
    return named and objective.weights is None and not objective.options


class StackedObjectives:
    """What each run of a stack minimises; the same objectives are evaluated together."""

    def __init__(self, objectives: Sequence[RiskObjective], device: torch.device) -> None:
        groups: dict[Hashable, list[int]] = {}
        for position, objective in enumerate(objectives):
            together = type(objective) in (ERM, EQRM)
            key = objective_key(objective) if together else ("alone", position)
            groups.setdefault(key, []).append(position)
        # An objective that keeps state (GroupDRO's weights) needs a copy for every run.
        self.groups = [
            (copy.deepcopy(objectives[positions[0]]).to(device).train(), positions)
            for positions in groups.values()
        ]
        self.device = device
        self._number()

    def keep(self, alive: int) -> None:
        """Go on with the first ``alive`` runs only."""
        kept = [(objective, [p for p in group if p < alive]) for objective, group in self.groups]
        self.groups = [(objective, group) for objective, group in kept if group]
        self._number()

    def _number(self) -> None:
        order = torch.tensor([p for _, positions in self.groups for p in positions])
        self.places = order.argsort().to(self.device)
        self.rows = [torch.tensor(p, device=self.device) for _, p in self.groups]

    def __call__(self, risks: Tensor) -> Tensor:
        """(R,) objectives of risks (R, m); each depends on its own row only."""
        if len(self.groups) == 1:
            return self._of_group(self.groups[0][0], risks)
        parts = [
            self._of_group(objective, risks[rows])
            for (objective, _), rows in zip(self.groups, self.rows, strict=True)
        ]
        return torch.cat(parts)[self.places]

    @staticmethod
    def _of_group(objective: RiskObjective, risks: Tensor) -> Tensor:
        if type(objective) is ERM:
            return risks.mean(-1)
        if type(objective) is EQRM:
            return objective.of_risks(risks)
        return objective.of_risks(risks[0]).reshape(1)


def loss_divisors(
    phases: Sequence[Phase],
    objectives: StackedObjectives,
    risks: Tensor,
    parameters: list[Tensor],
    erm_norms: Tensor,
) -> Tensor:
    """(R,) what the phases' loss scalings divide the losses by, measured on ``risks`` (R, m).

    ``erm_norms`` (R,) are the norms of ERM's gradients at the first step of the runs.
    """
    ones = torch.ones(len(phases), dtype=risks.dtype, device=risks.device)
    if all(phase.loss_scaling == "none" for phase in phases):
        return ones
    ratio, measured = ones, [phase.loss_scaling == GRADIENT_RATIO for phase in phases]
    if any(measured):
        objectives = copy.deepcopy(objectives)  # measuring must not move GroupDRO's weights
        new = gradient_norms(objectives(risks), parameters)
        ratio = torch.where((new > 0) & (erm_norms > 0), new / erm_norms, 1.0).to(risks.dtype)
    fixed = [
        1.0 if here else LossScaling(phase.loss_scaling).divisor(phase.minimised)
        for here, phase in zip(measured, phases, strict=True)
    ]
    given = torch.tensor(fixed, dtype=risks.dtype, device=risks.device)
    return torch.where(torch.tensor(measured, device=risks.device), ratio, given)


def gradient_norms(values: Tensor, parameters: list[Tensor]) -> Tensor:
    """(R,) ‖∇value of run r‖ over all its parameters; keeps the graph."""
    gradients = torch.autograd.grad(values.sum(), parameters, retain_graph=True)
    squares = [g.double().square().flatten(1).sum(1) for g in gradients]
    return torch.stack(squares).sum(0).sqrt()
