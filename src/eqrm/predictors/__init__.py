"""What is trained: featurizer, head and a loss per example."""

from eqrm.predictors.base import LOSSES, Loss, Predictor
from eqrm.predictors.batch_norm import freeze_batch_norm
from eqrm.predictors.cnn import CNN
from eqrm.predictors.efficientnet import EfficientNetLite
from eqrm.predictors.gin import GIN
from eqrm.predictors.linear import LinearPredictor
from eqrm.predictors.mlp import MLP
from eqrm.predictors.registry import PREDICTORS, predictor, predictor_settings
from eqrm.predictors.resnet import ResNet

__all__ = [
    "CNN",
    "GIN",
    "LOSSES",
    "MLP",
    "PREDICTORS",
    "EfficientNetLite",
    "LinearPredictor",
    "Loss",
    "Predictor",
    "ResNet",
    "freeze_batch_norm",
    "predictor",
    "predictor_settings",
]
