from .base import Predictor as Predictor
from .registry import predictor as predictor
from .resnet import ResNet as ResNet
from .small_networks import CNN as CNN
from .small_networks import MLP as MLP
