"""Exact linear worlds: with squared error, the risk on a domain is a quadratic form."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
