"""Causal recovery from invariant risks: the predictors, the condition, what is enough."""

from eqrm.causal.assumption_v import AssumptionV, assumption_v
from eqrm.causal.invariant_risk import (
    AffineSet,
    MinimalInvariantRisk,
    invariant_risk_predictors,
    minimal_invariant_risk,
)
from eqrm.causal.sufficient_interventions import (
    InterventionPlan,
    intervention_domains,
    paper_case,
    sufficient_interventions,
)

__all__ = [
    "AffineSet",
    "AssumptionV",
    "InterventionPlan",
    "MinimalInvariantRisk",
    "assumption_v",
    "intervention_domains",
    "invariant_risk_predictors",
    "minimal_invariant_risk",
    "paper_case",
    "sufficient_interventions",
]
