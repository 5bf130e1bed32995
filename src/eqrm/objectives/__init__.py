"""What training minimises. Each objective is one class, found by name in the registry."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
