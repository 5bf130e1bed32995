"""Objectives by name, so that a run swaps its objective and changes nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from eqrm.errors import SettingError, did_you_mean
from eqrm.objectives.base import Objective

OBJECTIVES: dict[str, tuple[str, str]] = {
    "arm": ("eqrm.objectives.domain_context", "ARM"),
    "cdann": ("eqrm.objectives.adversarial", "CDANN"),
    "coral": ("eqrm.objectives.alignment", "CORAL"),
    "dann": ("eqrm.objectives.adversarial", "DANN"),
    "eqrm": ("eqrm.objectives.risk_based", "EQRM"),
    "erm": ("eqrm.objectives.risk_based", "ERM"),
    "groupdro": ("eqrm.objectives.risk_based", "GroupDRO"),
    "iga": ("eqrm.objectives.penalties", "IGA"),
    "irm": ("eqrm.objectives.penalties", "IRM"),
    "mixup": ("eqrm.objectives.perturbation", "Mixup"),
    "mldg": ("eqrm.objectives.meta", "MLDG"),
    "mmd": ("eqrm.objectives.alignment", "MMD"),
    "mtl": ("eqrm.objectives.domain_context", "MTL"),
    "rsc": ("eqrm.objectives.perturbation", "RSC"),
    "sagnet": ("eqrm.objectives.style", "SagNet"),
    "sd": ("eqrm.objectives.penalties", "SD"),
    "superquantile": ("eqrm.objectives.risk_based", "Superquantile"),
    "vrex": ("eqrm.objectives.risk_based", "VREx"),
}
"""Name → (module, class). Modules load when an objective of theirs is asked for."""


def objective_class(name: str) -> type[Objective]:
    """The class behind a name; upper and lower case do not matter.

    >>> objective_class("IRM").__name__
    'IRM'
    >>> objective_class("coal")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: There is no objective 'coal'. Did you mean 'coral'? Choose from: ...
    """
    key = name.lower()
    if key not in OBJECTIVES:
        raise SettingError(f"There is no objective {name!r}. {did_you_mean(name, OBJECTIVES)}")
    module, attribute = OBJECTIVES[key]
    found: type[Objective] = getattr(import_module(module), attribute)
    return found


def objective(name: str, **hyperparameters: Any) -> Objective:
    """An objective by name, with the hyperparameters that differ from its defaults.

    >>> objective("irm", penalty_weight=10.0).penalty_weight
    10.0
    """
    made: Objective = objective_class(name)(**hyperparameters)
    return made
