"""Causal recovery from invariant risks: the predictors, the condition, what is enough."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
