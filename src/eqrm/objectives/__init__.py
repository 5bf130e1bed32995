"""What training minimises. Each objective is one class, found by name in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqrm.objectives.base import (
    Batch,
    Objective,
    OptimizerSettings,
    RecommendedPhase,
    RiskObjective,
    Update,
)
from eqrm.objectives.registry import OBJECTIVES, objective, objective_class

if TYPE_CHECKING:
    from eqrm.objectives.adversarial import CDANN, DANN
    from eqrm.objectives.alignment import CORAL, MMD
    from eqrm.objectives.domain_context import ARM, MTL
    from eqrm.objectives.loss_scaling import LossScaling
    from eqrm.objectives.meta import MLDG
    from eqrm.objectives.penalties import IGA, IRM, SD
    from eqrm.objectives.perturbation import RSC, Mixup
    from eqrm.objectives.risk_based import EQRM, ERM, GroupDRO, Superquantile, VREx
    from eqrm.objectives.risk_memory import RiskMemory
    from eqrm.objectives.style import SagNet

__all__ = [
    "ARM",
    "CDANN",
    "CORAL",
    "DANN",
    "EQRM",
    "ERM",
    "IGA",
    "IRM",
    "MLDG",
    "MMD",
    "MTL",
    "OBJECTIVES",
    "RSC",
    "SD",
    "Batch",
    "GroupDRO",
    "LossScaling",
    "Mixup",
    "Objective",
    "OptimizerSettings",
    "RecommendedPhase",
    "RiskMemory",
    "RiskObjective",
    "SagNet",
    "Superquantile",
    "Update",
    "VREx",
    "objective",
    "objective_class",
]


def __getattr__(name: str) -> object:
    """Load an objective's module when the class is first used."""
    if name == "LossScaling":
        from eqrm.objectives.loss_scaling import LossScaling

        return LossScaling
    if name == "RiskMemory":
        from eqrm.objectives.risk_memory import RiskMemory

        return RiskMemory
    for key, (_, attribute) in OBJECTIVES.items():
        if attribute == name:
            return objective_class(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
