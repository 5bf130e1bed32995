"""Small predictors: linear and logistic regression, a multilayer perceptron, a CNN for digits."""

from __future__ import annotations

from torch import Tensor, nn

from eqrm.checks import one_of
from eqrm.predictors.base import Loss, Predictor, layers
from eqrm.predictors.images import Fractions

INITIALISATIONS = ("default", "xavier")


class LinearPredictor(Predictor):
    """outputs = W x + b; the features are the inputs themselves."""

    def __init__(
        self, inputs: int, outputs: int, bias: bool = True, loss: str | Loss = "cross-entropy"
    ) -> None:
        super().__init__(nn.Flatten(), nn.Linear(inputs, outputs, bias=bias), loss)


class MLP(Predictor):
    """``depth`` hidden layers of ``width`` units (the featurizer) and a linear head.

    Inputs of any shape are flattened to (n, inputs). ``initialisation="xavier"`` draws weights from
    Xavier's uniform law and sets biases to 0; ``"default"`` is torch's own.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int = 64,
        depth: int = 2,
        dropout: float = 0.0,
        initialisation: str = "default",
        loss: str | Loss = "cross-entropy",
    ) -> None:
        one_of(initialisation, INITIALISATIONS, "initialisation")
        *hidden, head = layers(inputs, *[width] * depth, outputs, dropout=dropout)
        super().__init__(nn.Sequential(nn.Flatten(), *hidden), head, loss)
        if initialisation == "xavier":
            self.apply(_xavier)


def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


class CNN(Predictor):
    """Four 3×3 convolutions with group norm and a mean over pixels, for 28×28 images.

    DomainBed's network for RotatedMNIST and ColoredMNIST; ``inputs`` is the number of channels.
    """

    input_kind = "channels"

    def __init__(
        self, inputs: int, outputs: int, width: int = 64, loss: str | Loss = "cross-entropy"
    ) -> None:
        featurizer = nn.Sequential(
            Fractions(),
            *_convolution(inputs, width),
            *_convolution(width, 2 * width, stride=2),
            *_convolution(2 * width, 2 * width),
            *_convolution(2 * width, 2 * width),
            MeanOverPixels(),
        )
        super().__init__(featurizer, nn.Linear(2 * width, outputs), loss)


class MeanOverPixels(nn.Module):
    """(n, channels, height, width) → (n, channels)."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


def _convolution(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    groups = 8 if outputs % 8 == 0 else 1
    return [
        nn.Conv2d(inputs, outputs, 3, stride, padding=1),
        nn.ReLU(),
        nn.GroupNorm(groups, outputs),
    ]
