"""Where (x, y, domain) come from: the contract, batches by domain, datasets by name, tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
