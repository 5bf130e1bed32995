"""A small convolutional network for digits."""

from __future__ import annotations

from torch import Tensor, nn

from eqrm.predictors.base import Loss, Predictor
from eqrm.predictors.images import Fractions


class CNN(Predictor):
    """Four 3×3 convolutions with group norm and a mean over pixels, for 28×28 images.

    The architecture that DomainBed uses for RotatedMNIST and ColoredMNIST: 64, 128, 128 and
    128 channels, stride 2 in the second layer, so images of any size will do. ``inputs`` is the
    number of channels.

    >>> import torch
    >>> predictor = CNN(1, 10)
    >>> (
    ...     predictor.features(torch.zeros(2, 1, 28, 28)).shape,
    ...     predictor(torch.zeros(2, 1, 14, 14)).shape,
    ... )
    (torch.Size([2, 128]), torch.Size([2, 10]))
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
        """The mean of every channel."""
        return maps.mean(dim=(2, 3))


def _convolution(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    groups = 8 if outputs % 8 == 0 else 1
    return [
        nn.Conv2d(inputs, outputs, 3, stride, padding=1),
        nn.ReLU(),
        nn.GroupNorm(groups, outputs),
    ]
