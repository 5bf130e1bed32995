"""Causal recovery from invariant risks: linear worlds, predictors, the condition, what is enough.

>>> from studies.causal import LinearSCM, Noise, minimal_invariant_risk
>>> world = LinearSCM({"X1": {}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}}, "Y")
>>> domains = {"observed": [], "noisier": [Noise("X2", std=2.0)]}
>>> minimal_invariant_risk(world.population(domains)).status
'unique'
"""

from studies.causal.assumption_v import AssumptionV as AssumptionV
from studies.causal.assumption_v import assumption_v as assumption_v
from studies.causal.invariant_risk import AffineSet as AffineSet
from studies.causal.invariant_risk import MinimalInvariantRisk as MinimalInvariantRisk
from studies.causal.invariant_risk import invariant_risk_predictors as invariant_risk_predictors
from studies.causal.invariant_risk import minimal_invariant_risk as minimal_invariant_risk
from studies.causal.scm.interventions import Do as Do
from studies.causal.scm.interventions import DomainLaw as DomainLaw
from studies.causal.scm.interventions import Intervention as Intervention
from studies.causal.scm.interventions import Noise as Noise
from studies.causal.scm.interventions import Scale as Scale
from studies.causal.scm.interventions import Shift as Shift
from studies.causal.scm.model import LinearSCM as LinearSCM
from studies.causal.sufficient_interventions import InterventionPlan as InterventionPlan
from studies.causal.sufficient_interventions import intervention_domains as intervention_domains
from studies.causal.sufficient_interventions import paper_case as paper_case
from studies.causal.sufficient_interventions import (
    sufficient_interventions as sufficient_interventions,
)
