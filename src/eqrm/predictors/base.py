"""What is trained: a featurizer, a head and a loss per example; and the sizes of their layers.

Methods that align features (CORAL, DANN) look at what lies between featurizer and head;
all others see one function from inputs to outputs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from eqrm.checks import one_of
from eqrm.errors import DomainDataError, SettingError

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs (n, …) and targets (n, …) to one loss per example, (n,)."""


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """−log softmax(outputs)[y] per example: outputs (n, classes), y (n,) integers."""
    if outputs.ndim != 2:
        raise DomainDataError(
            f"cross-entropy needs outputs of shape (n, classes), got {tuple(outputs.shape)}. "
            "For one logit per example use loss='binary-cross-entropy'."
        )
    return functional.cross_entropy(outputs, y.reshape(-1), reduction="none")


def binary_cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Logistic loss per example: outputs are logits (n,), (n, 1) or (n, k), y in [0, 1].

    With k labels an example's loss is the mean over its labels that are present: NaN stands for
    one that is missing (molecules are measured on some of many tasks).
    """
    logits, targets = _same_shape(outputs, y)
    if logits.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")[:, 0]
    present = ~targets.isnan()
    known = torch.where(present, targets, 0.0)
    losses = functional.binary_cross_entropy_with_logits(logits, known, reduction="none")
    return torch.where(present, losses, 0.0).sum(1) / present.sum(1)


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    """(output − y)² per example, the mean over outputs where there are several."""
    predictions, targets = _same_shape(outputs, y)
    return (predictions - targets).square().mean(1)


LOSSES: dict[str, Loss] = {
    "cross-entropy": cross_entropy,
    "binary-cross-entropy": binary_cross_entropy,
    "squared": squared,
}


class Predictor(nn.Module):
    """head(featurizer(x)), with a loss per example.

    The featurizer maps inputs to features (n, d), or feature maps (n, channels, …), and the head
    maps these to outputs (n, classes), (n, k) or (n,). ``loss`` is ``"cross-entropy"``,
    ``"binary-cross-entropy"``, ``"squared"``, or a function of (outputs, y) that returns one loss
    per example, (n,).

    >>> predictor = Predictor(nn.Linear(3, 8), nn.Linear(8, 2))
    >>> predictor(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    input_kind: ClassVar[str] = "values"
    """What the argument ``inputs`` counts: "values" (all numbers of one example), "channels"
    (its first dimension), or "graphs" (nothing to count)."""

    def __init__(
        self, featurizer: nn.Module, head: nn.Module, loss: str | Loss = "cross-entropy"
    ) -> None:
        super().__init__()
        self.featurizer = featurizer
        self.head = head
        self.loss = loss
        known = LOSSES[one_of(loss, LOSSES, "loss")] if isinstance(loss, str) else loss
        self._loss_function = known

    def features(self, x: Any) -> Tensor:
        """What the featurizer makes of the inputs, (n, d) or (n, channels, …)."""
        features: Tensor = self.featurizer(x)
        return features

    def forward(self, x: Any, domains: Tensor | None = None) -> Tensor:
        """Outputs for a batch; ``domains`` (n,) are used by predictors that adapt to one (ARM,
        MTL).
        """
        outputs: Tensor = self.head(self.features(x))
        return outputs

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """One loss per example, (n,)."""
        losses = self._loss_function(outputs, y)
        if losses.shape != outputs.shape[:1]:
            raise DomainDataError(
                "The loss must return one number per example, shape "
                f"{tuple(outputs.shape[:1])}, got {tuple(losses.shape)}. "
                "Average over everything but the first dimension (reduction='none')."
            )
        return losses

    def class_logits(self, outputs: Tensor) -> Tensor:
        """Outputs as logits of classes, (n, classes), whose softmax are the probabilities.

        One logit s of a binary classifier stands for two classes with logits −s/2 and s/2.
        """
        width = outputs.numel() // max(len(outputs), 1)
        if self.loss == "binary-cross-entropy" and width == 1:
            half = outputs.reshape(-1, 1) / 2
            return torch.cat([-half, half], dim=1)
        if self.loss in ("binary-cross-entropy", "squared") or outputs.ndim != 2 or width < 2:
            raise SettingError(
                f"Class probabilities are needed, but outputs of shape {tuple(outputs.shape)} "
                f"with loss {self.loss!r} have none. Use a classifier with loss='cross-entropy', "
                "or with one logit and loss='binary-cross-entropy'."
            )
        return outputs


def _same_shape(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both as (n, k) in the outputs' dtype, never by broadcasting (n,) against (n, 1)."""
    rows = len(outputs)
    if y.numel() != outputs.numel() or len(y) != rows:
        raise DomainDataError(
            f"Outputs {tuple(outputs.shape)} and targets {tuple(y.shape)} must hold the same "
            "number of values per example."
        )
    width = outputs.numel() // rows if rows else 1
    return outputs.reshape(rows, width), y.reshape(rows, width).to(outputs.dtype)


def layers(*sizes: int, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with ReLU between them, and dropout before each ReLU."""
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        if modules:
            modules += [nn.Dropout(dropout)] if dropout else []
            modules.append(nn.ReLU())
        modules.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*modules)


def input_size(network: nn.Module) -> int:
    """Inputs (features, or channels) of the first linear or convolutional layer."""
    layer = first_layer(network)
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def output_size(network: nn.Module) -> int:
    """Outputs (features, or channels) of the last linear or convolutional layer."""
    _, layer = _weighted_layers(network)[-1]
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def first_layer(network: nn.Module) -> nn.Linear | nn.Conv2d:
    """The first linear or convolutional layer, in the order the modules were defined."""
    return _weighted_layers(network)[0][1]


def widened(network: nn.Module, extra: int) -> nn.Module:
    """A copy whose first layer takes ``extra`` more inputs; the old weights stay, new ones are
    random.
    """
    network = copy.deepcopy(network)
    name, old = _weighted_layers(network)[0]
    new = _wider(old, extra)
    with torch.no_grad():
        new.weight[:, : old.weight.shape[1]] = old.weight
        if old.bias is not None and new.bias is not None:
            new.bias.copy_(old.bias)
    if not name:
        return new
    parent, _, attribute = name.rpartition(".")
    setattr(network.get_submodule(parent), attribute, new)
    return network


def _wider(old: nn.Linear | nn.Conv2d, extra: int) -> nn.Linear | nn.Conv2d:
    new = copy.deepcopy(old).to("cpu", torch.float32)  # where weights are drawn
    if isinstance(new, nn.Linear):
        new.in_features += extra
    elif new.groups == 1:
        new.in_channels += extra
    else:
        raise SettingError("A first layer with grouped convolutions cannot take more channels.")
    outputs, inputs, *kernel = old.weight.shape
    new.weight = nn.Parameter(torch.empty(outputs, inputs + extra, *kernel))
    new.reset_parameters()
    return new.to(old.weight)


def _weighted_layers(network: nn.Module) -> list[tuple[str, nn.Linear | nn.Conv2d]]:
    modules = network.named_modules()
    found = [(name, each) for name, each in modules if isinstance(each, (nn.Linear, nn.Conv2d))]
    if not found:
        raise SettingError(
            f"{type(network).__name__} has no nn.Linear or nn.Conv2d layer to read sizes from. "
            "This objective needs one in the featurizer or head of the predictor."
        )
    return found
