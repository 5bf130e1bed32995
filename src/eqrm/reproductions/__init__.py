"""Tables and figures of papers, computed again: a folder each, run by ``eqrm reproduce``.

A folder holds the settings, what is expected and where that comes from, the computation, and
functions that only draw.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
