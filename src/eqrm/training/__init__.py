"""Training networks: phases, exact resume, many domains, many processes.

Names load on first use: ``eqrm.training.many_runs`` needs torch and nothing else, and must not
ask for what the trainer writes its files with.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqrm.training.early_stopping import EarlyStopping as EarlyStopping
    from eqrm.training.loading import load_predictor as load_predictor
    from eqrm.training.optimizers import OptimizerChoice as OptimizerChoice
    from eqrm.training.phases import Phase as Phase
    from eqrm.training.phases import Phases as Phases
    from eqrm.training.phases import recommended_phases as recommended_phases
    from eqrm.training.settings import TrainingSettings as TrainingSettings
    from eqrm.training.trainer import Trained as Trained
    from eqrm.training.trainer import Trainer as Trainer

_MODULE_OF = {
    "EarlyStopping": "early_stopping",
    "OptimizerChoice": "optimizers",
    "Phase": "phases",
    "Phases": "phases",
    "Trained": "trainer",
    "Trainer": "trainer",
    "TrainingSettings": "settings",
    "load_predictor": "loading",
    "recommended_phases": "phases",
}

__all__ = [
    "EarlyStopping",
    "OptimizerChoice",
    "Phase",
    "Phases",
    "Trained",
    "Trainer",
    "TrainingSettings",
    "load_predictor",
    "recommended_phases",
]


def __getattr__(name: str) -> object:
    """Import the module behind a name when the name is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'eqrm.training' has no attribute {name!r}")
    value = getattr(import_module(f"eqrm.training.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
