"""scikit-learn estimators that minimise the α-quantile of risk over domains."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
