"""What is trained: featurizer, head and a loss per example."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
