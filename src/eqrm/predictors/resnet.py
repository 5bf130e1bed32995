"""ResNet-18 and ResNet-50 (He et al. 2016), with the parameter names of the usual state dicts."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from eqrm.checks import one_of
from eqrm.errors import SettingError
from eqrm.predictors.base import Loss, Predictor
from eqrm.predictors.images import (
    ImageScaling,
    image_featurizer,
    load_weights,
    norm_rectified,
    read_weights,
    rectified,
    with_channels,
)

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut (ResNet-18)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = norm_rectified(self.bn1, self.conv1(x))
        y = self.bn2(self.conv2(y))
        return rectified(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions and a shortcut (ResNet-50).

    The stride sits in the 3×3 convolution, as in the weights that everybody uses.
    """

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.downsample = _shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = norm_rectified(self.bn1, self.conv1(x))
        y = norm_rectified(self.bn2, self.conv2(y))
        y = self.bn3(self.conv3(y))
        return rectified(y + (x if self.downsample is None else self.downsample(x)))


Block = type[BasicBlock] | type[Bottleneck]

DEPTHS: dict[int, tuple[Block, tuple[int, int, int, int]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}
"""Depth → its block and how many of them each of the four stages has."""


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """A 1×1 convolution where the shortcut changes size, nothing where it does not."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNetFeatures(nn.Module):
    """Everything up to the mean over pixels: (n, 3, height, width) → (n, 512 or 2048)."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        block, repeats = DEPTHS[depth]
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(block, 64, 64, repeats[0], stride=1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, repeats[1], stride=2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, repeats[2], stride=2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, repeats[3], stride=2)
        self.outputs = 512 * block.expansion
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(norm_rectified(self.bn1, self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))


def _stage(block: Block, inputs: int, width: int, repeats: int, stride: int) -> nn.Sequential:
    first = block(inputs, width, stride)
    rest = [block(width * block.expansion, width, 1) for _ in range(repeats - 1)]
    return nn.Sequential(first, *rest)


class ResNet(Predictor):
    """A residual network of depth 18, 34 or 50 with a new last layer of size ``outputs``.

    With other ``inputs`` than 3 channels, the first layer's weights are repeated over the channels,
    as DomainBed does. ``pretrained`` is the path of a file with the usual ImageNet state dict.
    ``dropout`` is that of the features. ``frozen_batch_norm`` keeps batch norm's statistics as they
    are, by default with pretrained weights. ``scale`` normalises images in [0, 1] (or bytes) as
    ImageNet weights expect.
    """

    input_kind = "channels"

    def __init__(
        self,
        inputs: int,
        outputs: int,
        depth: int = 50,
        pretrained: str | Path | None = None,
        dropout: float = 0.0,
        frozen_batch_norm: bool | None = None,
        scale: bool = True,
        loss: str | Loss = "cross-entropy",
    ) -> None:
        one_of(str(depth), map(str, DEPTHS), "depth of a ResNet:")
        features = ResNetFeatures(depth)
        if isinstance(pretrained, bool):
            raise SettingError(
                "No package carries ResNet weights, so pretrained must be the path of a "
                ".safetensors or .pth file with the usual ImageNet state dict, got "
                f"{pretrained!r}."
            )
        if pretrained is not None:
            load_weights(features, read_weights(pretrained), source=str(pretrained))
        if inputs != 3:
            features.conv1 = with_channels(features.conv1, inputs)
        scaling = ImageScaling(IMAGENET_MEAN, IMAGENET_STD) if scale and inputs == 3 else None
        frozen = pretrained is not None if frozen_batch_norm is None else frozen_batch_norm
        featurizer = image_featurizer(features, scaling, frozen, dropout)
        super().__init__(featurizer, nn.Linear(features.outputs, outputs), loss)
