"""Many runs of one plan: trained, recorded, selected by rules, and tabulated (``eqrm sweep``)."""

from eqrm.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
