"""Linear and logistic regression."""

from __future__ import annotations

from torch import nn

from eqrm.predictors.base import Loss, Predictor


class LinearPredictor(Predictor):
    """outputs = W x + b; the features are the inputs themselves.

    >>> import torch
    >>> LinearPredictor(3, 1, loss="squared")(torch.zeros(4, 3)).shape
    torch.Size([4, 1])
    """

    def __init__(
        self, inputs: int, outputs: int, bias: bool = True, loss: str | Loss = "cross-entropy"
    ) -> None:
        super().__init__(nn.Flatten(), nn.Linear(inputs, outputs, bias=bias), loss)
