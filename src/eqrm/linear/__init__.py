"""Exact linear worlds: with squared error, the risk on a domain is a quadratic form."""

from eqrm.linear.interventions import Do, DomainLaw, Intervention, Noise, Scale, Shift
from eqrm.linear.moments import DomainMoments
from eqrm.linear.scm import LinearSCM

__all__ = [
    "Do",
    "DomainLaw",
    "DomainMoments",
    "Intervention",
    "LinearSCM",
    "Noise",
    "Scale",
    "Shift",
]
