"""Training networks: phases, exact resume, many domains, many processes."""

from eqrm.training.early_stopping import EarlyStopping
from eqrm.training.optimizers import OptimizerChoice
from eqrm.training.phases import Phase, Phases, recommended_phases
from eqrm.training.settings import TrainingSettings
from eqrm.training.trainer import Trained, Trainer

__all__ = [
    "EarlyStopping",
    "OptimizerChoice",
    "Phase",
    "Phases",
    "Trained",
    "Trainer",
    "TrainingSettings",
    "recommended_phases",
]
