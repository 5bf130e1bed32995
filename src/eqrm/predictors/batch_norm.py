"""Batch norm whose statistics stay those of pretraining."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

Network = TypeVar("Network", bound=nn.Module)


class FrozenBatchNorm(_BatchNorm):
    """Batch norm that uses its running statistics in training too, and never moves them.

    A batch of several domains has statistics that no single domain has, so fine-tuning keeps
    those of pretraining (as DomainBed does). Scale and shift are trained. The state dict has
    the same keys as that of the batch norm it stands for.
    """

    @classmethod
    def of(cls, layer: _BatchNorm) -> FrozenBatchNorm:
        """A frozen layer with the parameters and statistics of ``layer``."""
        frozen = cls(layer.num_features, layer.eps, layer.momentum, layer.affine)
        frozen = frozen.to(layer.running_mean.device, layer.running_mean.dtype)  # type: ignore[union-attr]
        frozen.load_state_dict(layer.state_dict())
        return frozen

    def forward(self, input: Tensor) -> Tensor:
        """(input − running mean)/√(running variance + ε)·scale + shift."""
        return functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


def freeze_batch_norm(network: Network) -> Network:
    """Replace every batch norm inside a network by a frozen one; returns the network.

    >>> network = freeze_batch_norm(nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)))
    >>> [type(layer).__name__ for layer in network]
    ['Conv2d', 'FrozenBatchNorm']
    """
    for name, child in network.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, FrozenBatchNorm):
            if child.track_running_stats:
                setattr(network, name, FrozenBatchNorm.of(child))
        else:
            freeze_batch_norm(child)
    return network
