"""eqrm: how a model will do on domains it has never seen, and how to train one that does well.

Public names are listed once, in ``__init__.pyi``, and load on first use, so that ``import eqrm``
costs next to nothing and a command that needs no tensors never waits for torch.

>>> import eqrm
>>> eqrm.Level(0.9)
Level(0.9)
>>> eqrm.VREx
Traceback (most recent call last):
...
AttributeError: module 'eqrm' has no attribute 'VREx'. Use eqrm.objectives.VREx.
"""

from importlib import import_module
from pkgutil import iter_modules

from eqrm._version import __version__ as __version__
from eqrm.public_names import attach

_load, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> object:
    """Load a public name on first use; say where a name is that is public further down."""
    if name in __all__:
        return _load(name)
    for place in () if name.startswith("_") else iter_modules(__path__):
        public = place.name in __all__ and import_module(f"eqrm.{place.name}")
        if name in getattr(public, "__all__", ()):
            raise AttributeError(
                f"module 'eqrm' has no attribute {name!r}. Use eqrm.{place.name}.{name}."
            )
    raise AttributeError(f"module 'eqrm' has no attribute {name!r}")
