"""What inputs, targets and domains must be to make a dataset together."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from eqrm.errors import DomainDataError


@runtime_checkable
class Inputs(Protocol):
    """What ``x`` may be besides a tensor: images read when asked for, a batch of graphs, …

    ``x[rows]`` takes a 1-d tensor of row numbers and gives what a predictor takes. An optional
    ``to(device)`` moves what can be moved once.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor, /) -> Any: ...


def check_lengths(x: Any, y: Any, domains: Any) -> None:
    """x, y and domains must hold as many examples each, at least one."""
    for name, value in (("y", y), ("domains", domains)):
        if not isinstance(value, Tensor):
            raise DomainDataError(
                f"{name} must be a tensor, not {type(value).__name__}. "
                "DomainData.from_arrays takes arrays and lists."
            )
    if not isinstance(x, Inputs):
        raise DomainDataError(
            f"x must be a tensor, or have a length and x[rows]; {type(x).__name__} has not."
        )
    if domains.ndim != 1 or domains.dtype != torch.long:
        raise DomainDataError(
            "domains must be a 1-d tensor of torch.long, one number per example; got "
            f"{domains.dtype} of shape {tuple(domains.shape)}."
        )
    lengths = {"x": len(x), "y": len(y) if y.ndim else 0, "domains": len(domains)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DomainDataError(
            f"x, y and domains must hold as many examples each; they hold {told}."
        )
    if len(domains) == 0:
        raise DomainDataError("There are no examples: at least one is needed.")
    if y.device != domains.device:
        raise DomainDataError(f"y is on {y.device} and domains on {domains.device}; use .to.")


def check_names(names: tuple[str, ...]) -> None:
    """Names must be strings, each of them once."""
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise DomainDataError(f"Domain names must be strings; {odd!r} is {type(odd).__name__}.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DomainDataError(
            f"The domain {twice!r} is listed twice. Give each domain a name of its own."
        )


def check_ids(domains: Tensor, names: tuple[str, ...]) -> None:
    """Numbers must lie between 0 and m − 1, and every domain must have an example."""
    low, high = int(domains.min()), int(domains.max())
    if low < 0 or high >= len(names):
        raise DomainDataError(
            f"domains must lie between 0 and {len(names) - 1}, for {len(names)} names; "
            f"{low if low < 0 else high} came."
        )
    empty = torch.nonzero(torch.bincount(domains, minlength=len(names)) == 0).reshape(-1)
    if len(empty):
        raise DomainDataError(
            f"The domain {names[int(empty[0])]!r} has no example. Leave out domains without any."
        )
