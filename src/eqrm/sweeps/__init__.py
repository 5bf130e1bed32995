"""Many runs of one plan: trained, recorded, selected by rules, and tabulated (``eqrm sweep``)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
