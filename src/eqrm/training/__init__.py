"""Training networks: phases, exact resume, many domains, many processes."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
