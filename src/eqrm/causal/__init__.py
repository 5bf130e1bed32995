"""Causal recovery from invariant risks: the predictors, the condition, what is enough."""

from eqrm.causal.assumption_v import AssumptionV, assumption_v
from eqrm.causal.invariant_risk import (
    AffineSet,
    MinimalInvariantRisk,
    invariant_risk_predictors,
    minimal_invariant_risk,
)

__all__ = [
    "AffineSet",
    "AssumptionV",
    "MinimalInvariantRisk",
    "assumption_v",
    "invariant_risk_predictors",
    "minimal_invariant_risk",
]
