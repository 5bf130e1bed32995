"""Exact linear worlds: with squared error, the risk on a domain is a quadratic form."""

from eqrm.linear.baselines import LinearERM, LinearGroupDRO, LinearIRM, LinearVREx
from eqrm.linear.frontier import Frontier
from eqrm.linear.interventions import Do, DomainLaw, Intervention, Noise, Scale, Shift
from eqrm.linear.linear_model import LinearModel
from eqrm.linear.moments import DomainMoments
from eqrm.linear.scm import LinearSCM
from eqrm.linear.solver import LinearQRM

__all__ = [
    "Do",
    "DomainLaw",
    "DomainMoments",
    "Frontier",
    "Intervention",
    "LinearERM",
    "LinearGroupDRO",
    "LinearIRM",
    "LinearModel",
    "LinearQRM",
    "LinearSCM",
    "LinearVREx",
    "Noise",
    "Scale",
    "Shift",
]
