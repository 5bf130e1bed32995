"""Estimated laws of the risk of a new domain."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
