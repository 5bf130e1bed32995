"""From pixels to the numbers that pretrained weights expect."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def as_fractions(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Bytes from 0 to 255 as numbers from 0 to 1; other images as they are.

    >>> as_fractions(torch.tensor([51, 255], dtype=torch.uint8))
    tensor([0.2000, 1.0000])
    """
    return images.to(dtype) / 255.0 if images.dtype == torch.uint8 else images


class Fractions(nn.Module):
    """The first layer of networks that take images: see :func:`as_fractions`."""

    def forward(self, images: Tensor) -> Tensor:
        """Images in [0, 1]."""
        return as_fractions(images)


class ImageScaling(nn.Module):
    """(x − mean)/std per channel, for images in [0, 1] or as bytes from 0 to 255.

    It is part of the predictor, because which numbers are right depends on the weights and not
    on the data. Bytes stay bytes until they are on the device, at a quarter of the memory.

    >>> ImageScaling([0.5], [0.5])(torch.tensor([[[[0.0, 1.0]]]])).flatten()
    tensor([-1.,  1.])
    >>> ImageScaling([0.0], [1.0])(torch.tensor([[[[51]]]], dtype=torch.uint8)).flatten()
    tensor([0.2000])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        shape = (1, len(mean), 1, 1)
        self.register_buffer("mean", torch.tensor(mean).reshape(shape), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(shape), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Scaled images, (n, channels, height, width), in the dtype of the statistics."""
        return (as_fractions(images, self.mean.dtype) - self.mean) / self.std
