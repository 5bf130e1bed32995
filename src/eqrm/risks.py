"""From losses per example to one risk per domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import DomainDataError

__all__ = ["DomainRisks", "domain_risks"]

Domains = Tensor | np.ndarray[Any, Any] | Sequence[Any]


@dataclass(frozen=True, eq=False)
class DomainRisks:
    """One risk per domain: the mean loss of a predictor there.

    ``values`` (m,) are differentiable in the losses; ``counts`` (m,) are the examples of each
    domain; ``names`` are what the domains were called (0 … m−1 for integer ids). Absent
    domains have count 0, value 0 and weight 0.
    """

    values: Tensor
    counts: Tensor
    names: Sequence[Any]
    all_present: bool
    losses: Tensor
    ids: Tensor

    @property
    def weights(self) -> Tensor | None:
        """1/k for each of the k domains present, 0 for the rest; None if all are present."""
        if self.all_present:
            return None
        present = (self.counts > 0).to(torch.float64)
        return present / present.sum()

    @property
    def sampling_variances(self) -> Tensor:
        """The sampling variance s²/n of each risk, s² the variance of its losses.

        Differentiable in the losses. A domain with one example tells nothing of its spread,
        and gets the mean s² of the others.

        >>> domain_risks(torch.tensor([1.0, 3.0, 5.0]), [0, 0, 1]).sampling_variances
        tensor([1., 2.])
        """
        return variances_of_means(self.squared_deviations(self.values.detach()), self.counts)

    def squared_deviations(self, centres: Tensor) -> Tensor:
        """Σ (loss − centre of its domain)² per domain, differentiable in the losses."""
        losses = self.losses.to(centres.dtype)
        deviations = (losses - centres[self.ids]) ** 2
        return torch.zeros_like(centres).scatter_add(0, self.ids, deviations)

    @property
    def standard_errors(self) -> Tensor:
        """The sampling error s/√n of each risk; NaN for domains with fewer than two examples.

        >>> domain_risks(torch.tensor([1.0, 3.0, 5.0]), [0, 0, 1]).standard_errors
        tensor([1., nan])
        """
        errors = self.sampling_variances.detach().sqrt()
        return torch.where(self.counts > 1, errors, torch.nan)

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Put a domain's name into an error that knows only its index.

        >>> risks = domain_risks(torch.tensor([1.0, float("nan")]), ["Oslo", "Rome"])
        >>> with risks.naming_errors():
        ...     raise DomainDataError("The risk of domain 1 is nan.", index=(1,))
        Traceback (most recent call last):
        ...
        eqrm.errors.DomainDataError: The risk of domain 'Rome' is nan.
        """
        try:
            yield
        except DomainDataError as error:
            if error.index is None:
                raise
            position = error.index[-1]
            name = self.names[position]
            message = str(error).replace(f"domain {position} ", f"domain {name!r} ", 1)
            raise DomainDataError(message, index=error.index) from None


def variances_of_means(squares: Tensor, counts: Tensor) -> Tensor:
    """s²/n per domain from its sum of squared deviations (m,) and its examples (m,)."""
    numbers = counts.to(squares.dtype)
    several = counts > 1
    variances = squares / torch.where(several, numbers - 1.0, 1.0)
    pooled = torch.where(several, variances, 0.0).sum().detach() / several.sum().clamp(min=1)
    return torch.where(several, variances, pooled) / numbers.clamp(min=1)


def domain_risks(losses: Tensor, domains: Domains, num_domains: int | None = None) -> DomainRisks:
    """Mean loss per domain, R_e = (1/n_e) Σ losses of domain e (Algorithm 1, line 3).

    ``losses`` (n,) is one loss per example and ``domains`` (n,) says where each comes from:
    integers, strings, or a pandas categorical. Sums are taken by one ``scatter_add``, in
    float64, and returned in float32 at least.

    With ``num_domains``, ``domains`` must be integer ids below it. Then nothing is looked up
    and the device is never waited for, as ``torch.compile``, CUDA graphs and DDP need.

    >>> risks = domain_risks(torch.tensor([1.0, 3.0, 5.0]), ["a", "a", "b"])
    >>> risks.values, risks.counts, risks.names
    (tensor([2., 5.]), tensor([2, 1]), ('a', 'b'))
    >>> domain_risks(torch.tensor([1.0, 3.0]), torch.tensor([2, 2]), num_domains=3).values
    tensor([0., 0., 2.])
    """
    losses = _as_losses(losses)
    _check_losses(losses, domains)
    if num_domains is None:
        if losses.numel() == 0:
            raise DomainDataError("There are no losses: at least one example is needed.")
        ids, names = number_domains(domains, losses.device)
    else:
        ids, names = _given_ids(domains, num_domains, losses.device), range(num_domains)
    # One scatter for sums and counts: row 0 gathers losses, row 1 ones. In float64, because a
    # float32 sum of many losses drifts, and cannot count beyond 2^24.
    stacked = torch.stack([losses.to(torch.float64), torch.ones_like(losses, dtype=torch.float64)])
    totals = stacked.new_zeros((2, len(names))).scatter_add(1, ids.expand(2, -1), stacked)
    counts = totals[1].detach()
    values = totals[0] / counts.clamp(min=1)
    values = values.to(torch.promote_types(losses.dtype, torch.float32))
    return DomainRisks(
        values=values,
        counts=counts.to(torch.int64),
        names=names,
        all_present=num_domains is None,
        losses=losses,
        ids=ids,
    )


def _as_losses(losses: Any) -> Tensor:
    try:
        return torch.as_tensor(losses)
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(
            f"Losses must be a tensor or a list of numbers, not {type(losses).__name__}."
        ) from None


def _check_losses(losses: Tensor, domains: Domains) -> None:
    if losses.ndim != 1:
        hint = ' Use reduction="none" in the loss.' if losses.ndim == 0 else ""
        raise DomainDataError(
            "Losses must be a vector with one loss per example, but their shape is "
            f"{tuple(losses.shape)}.{hint}"
        )
    if not losses.dtype.is_floating_point:
        raise DomainDataError(f"Losses must be floating-point numbers, not {losses.dtype}.")
    if isinstance(domains, (str, bytes, dict, set, frozenset)) or not hasattr(domains, "__len__"):
        raise DomainDataError(
            "Domains must be a list, an array or a tensor with the domain of each example, not "
            f"{type(domains).__name__}."
        )
    shape = tuple(domains.shape) if hasattr(domains, "shape") else (len(domains),)
    if shape != tuple(losses.shape):
        raise DomainDataError(
            "There must be one domain per loss: losses have shape "
            f"{tuple(losses.shape)}, domains {shape}."
        )


def _given_ids(domains: Domains, num_domains: int, device: torch.device) -> Tensor:
    if not isinstance(num_domains, (int, np.integer)) or isinstance(num_domains, bool):
        raise DomainDataError(f"num_domains must be a whole number, but it is {num_domains!r}.")
    if num_domains < 1:
        raise DomainDataError(f"num_domains must be at least 1, but it is {num_domains}.")
    ids = domains if isinstance(domains, Tensor) else torch.as_tensor(np.asarray(domains))
    if ids.dtype.is_floating_point or ids.dtype == torch.bool or ids.dtype.is_complex:
        raise DomainDataError(
            f"With num_domains, domains must be integer ids from 0, not {ids.dtype}."
        )
    ids = ids.to(device=device, dtype=torch.int64)
    if device.type == "cpu" and ids.numel() > 0 and not torch.compiler.is_compiling():
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= num_domains:
            raise DomainDataError(
                f"With num_domains={num_domains}, domain ids must lie between 0 and "
                f"{num_domains - 1}, but {low if low < 0 else high} came."
            )
    return ids


def number_domains(domains: Domains, device: torch.device) -> tuple[Tensor, Sequence[Any]]:
    """Number the domains in sorted order; on the CPU for anything but a tensor.

    >>> number_domains(["b", "a", "b"], torch.device("cpu"))
    (tensor([1, 0, 1]), ('a', 'b'))
    """
    if isinstance(domains, Tensor):
        if domains.dtype.is_floating_point or domains.dtype.is_complex:
            raise DomainDataError(
                f"Domains must be integers or strings, but their dtype is {domains.dtype}."
            )
        if device.type == domains.device.type == "cpu" and not torch.compiler.is_compiling():
            return _encode_sortable(domains.numpy(), device)
        found, inverse = torch.unique(domains.to(device), return_inverse=True)
        return inverse, tuple(found.tolist())
    categorical: Any = getattr(domains, "cat", domains)
    if hasattr(categorical, "codes") and hasattr(categorical, "categories"):
        return _encode_codes(np.asarray(categorical.codes), categorical.categories, device)
    if isinstance(domains, (list, tuple)):
        _refuse_missing(domains)  # numpy would turn NaN among strings into the string 'nan'
        _refuse_mixed(domains)
    array = np.asarray(domains)
    if array.dtype.kind == "f":
        raise DomainDataError(
            "Domains must be integers or strings, but they are floating-point numbers. "
            "If some are missing (NaN), give those examples a domain of their own or drop them."
        )
    if array.dtype.kind == "O":
        _refuse_missing(array)
    return _encode_sortable(array.astype(str) if array.dtype.kind == "O" else array, device)


def _encode_sortable(
    array: np.ndarray[Any, Any], device: torch.device
) -> tuple[Tensor, Sequence[Any]]:
    """Number what numpy can sort. Integers that lie close together are counted instead."""
    if array.dtype.kind == "i":
        low, high = int(array.min()), int(array.max())
        if high - low < 4 * array.size + 1024:
            shifted = array.astype(np.int64) - low
            present = np.bincount(shifted) > 0
            inverse = (np.cumsum(present) - 1)[shifted]
            names = np.flatnonzero(present) + low
            return torch.from_numpy(inverse).to(device), tuple(names.tolist())
    found, inverse = np.unique(array, return_inverse=True)
    return torch.from_numpy(inverse.reshape(-1)).to(device), tuple(found.tolist())


def _encode_codes(
    codes: np.ndarray[Any, Any], categories: Any, device: torch.device
) -> tuple[Tensor, Sequence[Any]]:
    if (codes < 0).any():
        raise DomainDataError(
            f"The domain of example {int(np.flatnonzero(codes < 0)[0])} is missing. "
            "Give such examples a domain of their own or drop them."
        )
    used, inverse = np.unique(codes, return_inverse=True)
    names = tuple(categories[int(code)] for code in used)
    return torch.from_numpy(inverse.reshape(-1)).to(device), names


def is_missing(value: Any) -> bool:
    """None, NaN and NaT, which differ from themselves, and pandas' NA, which does not say.

    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array, which is something
        return False


def _refuse_missing(domains: Iterable[Any]) -> None:
    for position, name in enumerate(domains):
        if is_missing(name):
            raise DomainDataError(
                f"The domain of example {position} is missing. "
                "Give such examples a domain of their own or drop them."
            )


def _refuse_mixed(domains: Sequence[Any]) -> None:
    """numpy would turn the number 1 among strings into the string '1', another domain."""
    text = [isinstance(name, str) for name in domains]
    if any(text) and not all(text):
        odd = next(name for name, is_text in zip(domains, text, strict=True) if not is_text)
        raise DomainDataError(
            f"Domains must all be strings or all be numbers, but {odd!r} stands among strings. "
            "Turn them into strings: [str(name) for name in domains]."
        )
