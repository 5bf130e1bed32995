"""Exact linear worlds: with squared error, the risk on a domain is a quadratic form."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
