"""The first and last layer of a network: their sizes, and a wider first layer."""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
from torch import nn

from eqrm.errors import SettingError


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
