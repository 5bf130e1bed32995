"""Exact linear worlds: with squared error, the risk on a domain is a quadratic form."""

from eqrm.linear.moments import DomainMoments

__all__ = ["DomainMoments"]
