"""Predictors of vectors: linear and logistic regression, and a small multilayer perceptron."""

from __future__ import annotations

from torch import nn

from eqrm.checks import one_of
from eqrm.predictors.base import Loss, Predictor
from eqrm.predictors.layers import layers

INITIALISATIONS = ("default", "xavier")


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


class MLP(Predictor):
    """``depth`` hidden layers of ``width`` units (the featurizer) and a linear head.

    Inputs of any shape are flattened to (n, inputs). ``initialisation="xavier"`` draws weights
    from Xavier's uniform law and sets biases to 0; ``"default"`` is torch's own.

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
        initialisation: str = "default",
        loss: str | Loss = "cross-entropy",
    ) -> None:
        one_of(initialisation, INITIALISATIONS, "initialisation")
        hidden = layers(inputs, *[width] * depth, dropout=dropout)
        last = [nn.Dropout(dropout), nn.ReLU()] if dropout else [nn.ReLU()]
        super().__init__(
            nn.Sequential(nn.Flatten(), *hidden, *last), nn.Linear(width, outputs), loss
        )
        if initialisation == "xavier":
            self.apply(_xavier)


def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
