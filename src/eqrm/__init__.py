"""eqrm: how a model will do on domains it has never seen, and how to train one that does well.

Public names load on first use (PEP 562), so that ``import eqrm`` costs next to nothing and a
command that needs no tensors never waits for torch.

>>> import eqrm
>>> eqrm.Level(0.9)
Level(0.9)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqrm import errors as errors
    from eqrm.distributions import KDE as KDE
    from eqrm.distributions import Empirical as Empirical
    from eqrm.distributions import Gaussian as Gaussian
    from eqrm.distributions import LogNormal as LogNormal
    from eqrm.distributions import RiskDistribution as RiskDistribution
    from eqrm.level import Level as Level
    from eqrm.risks import DomainRisks as DomainRisks
    from eqrm.risks import domain_risks as domain_risks

__version__ = "0.1.0"

_MODULE_OF = {
    "DomainRisks": "eqrm.risks",
    "Empirical": "eqrm.distributions",
    "Gaussian": "eqrm.distributions",
    "KDE": "eqrm.distributions",
    "Level": "eqrm.level",
    "LogNormal": "eqrm.distributions",
    "RiskDistribution": "eqrm.distributions",
    "domain_risks": "eqrm.risks",
}

__all__ = [
    "KDE",
    "DomainRisks",
    "Empirical",
    "Gaussian",
    "Level",
    "LogNormal",
    "RiskDistribution",
    "domain_risks",
    "errors",
]


def __getattr__(name: str) -> object:
    """Import the module behind a public name when the name is first used."""
    if name == "errors":
        return import_module("eqrm.errors")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eqrm' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not, for completion in an editor or a notebook."""
    return sorted({*globals(), *__all__})
