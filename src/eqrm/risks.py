"""From losses per example to one risk per domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import POSITIVE_INTEGER
from eqrm.domains import Name, domain_names, number_domains
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
    _check_losses(losses)
    if num_domains is None:
        if losses.numel() == 0:
            raise DomainDataError("There are no losses: at least one example is needed.")
        ids, names = _numbered(domains, losses)
    else:
        ids, names = _given_ids(domains, num_domains, losses), range(num_domains)
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
            f"losses must be a tensor or a list of numbers, got {type(losses).__name__}."
        ) from None


def _check_losses(losses: Tensor) -> None:
    if losses.ndim != 1:
        hint = ' Use reduction="none" in the loss.' if losses.ndim == 0 else ""
        raise DomainDataError(
            f"losses must be a vector with one loss per example, got the shape "
            f"{tuple(losses.shape)}.{hint}"
        )
    if not losses.dtype.is_floating_point:
        raise DomainDataError(f"losses must be floating-point numbers, got {losses.dtype}.")


def _given_ids(domains: Domains, num_domains: int, losses: Tensor) -> Tensor:
    if not POSITIVE_INTEGER.holds(num_domains):
        raise DomainDataError(f"num_domains must be {POSITIVE_INTEGER.words}, got {num_domains!r}.")
    ids = domains if isinstance(domains, Tensor) else torch.as_tensor(np.asarray(domains))
    if ids.dtype.is_floating_point or ids.dtype == torch.bool or ids.dtype.is_complex:
        raise DomainDataError(
            f"With num_domains, domains must be integer ids from 0, got {ids.dtype}."
        )
    if ids.shape != losses.shape:
        raise DomainDataError(
            f"domains must hold one domain per loss: losses have the shape {tuple(losses.shape)}, "
            f"domains {tuple(ids.shape)}."
        )
    ids = ids.to(device=losses.device, dtype=torch.int64)
    if losses.device.type == "cpu" and ids.numel() > 0 and not torch.compiler.is_compiling():
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= num_domains:
            raise DomainDataError(
                f"With num_domains={num_domains}, domain ids must be from 0 to {num_domains - 1}, "
                f"got {low if low < 0 else high}."
            )
    return ids


def _numbered(domains: Domains, losses: Tensor) -> tuple[Tensor, Sequence[Name]]:
    """Ids on the losses' device, and names; integers on a GPU are numbered there."""
    if isinstance(domains, Tensor) and (torch.compiler.is_compiling() or domains.is_cuda):
        if domains.shape != losses.shape or domains.dtype.is_floating_point:
            raise DomainDataError(
                f"domains must hold one integer per loss {tuple(losses.shape)}, got "
                f"{domains.dtype} of shape {tuple(domains.shape)}."
            )
        found, inverse = torch.unique(domains.to(losses.device), return_inverse=True)
        return inverse, tuple(domain_names(found.tolist()))
    numbered = number_domains(domains, rows=len(losses))
    return torch.from_numpy(numbered.ids).to(losses.device), numbered.names
