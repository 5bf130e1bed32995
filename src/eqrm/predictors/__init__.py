"""What is trained: featurizer, head and a loss per example."""

from eqrm.predictors.base import LOSSES, Loss, Predictor
from eqrm.predictors.linear import LinearPredictor
from eqrm.predictors.mlp import MLP

__all__ = ["LOSSES", "MLP", "LinearPredictor", "Loss", "Predictor"]
