"""What training minimises. Each objective is one class, found by name in the registry."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
