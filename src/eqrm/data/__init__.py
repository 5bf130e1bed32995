"""Where (x, y, domain) come from: the contract, batches by domain, datasets by name, tables."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
