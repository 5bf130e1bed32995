"""What is trained: featurizer, head and a loss per example."""

from eqrm.predictors.base import LOSSES, Loss, Predictor

__all__ = ["LOSSES", "Loss", "Predictor"]
