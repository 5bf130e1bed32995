"""How good a model is on domains that it has never seen."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
