"""A small multilayer perceptron, for tests, docs and tables."""

from __future__ import annotations

from torch import nn

from eqrm.predictors.base import Loss, Predictor
from eqrm.predictors.layers import layers


class MLP(Predictor):
    """``depth`` hidden layers of ``width`` units (the featurizer) and a linear head.

    Inputs of any shape are flattened to (n, inputs).

    >>> import torch
    >>> predictor = MLP(4, 2, width=16, depth=2)
    >>> predictor.features(torch.zeros(3, 2, 2)).shape, predictor(torch.zeros(3, 4)).shape
    (torch.Size([3, 16]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        width: int = 64,
        depth: int = 2,
        dropout: float = 0.0,
        loss: str | Loss = "cross-entropy",
    ) -> None:
        hidden = layers(inputs, *[width] * depth, dropout=dropout)
        last = [nn.Dropout(dropout), nn.ReLU()] if dropout else [nn.ReLU()]
        super().__init__(
            nn.Sequential(nn.Flatten(), *hidden, *last), nn.Linear(width, outputs), loss
        )
