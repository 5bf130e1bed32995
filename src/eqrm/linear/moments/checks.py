"""What moments must be: shapes that fit, finite numbers, covariances that can be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eqrm.errors import DomainDataError

if TYPE_CHECKING:
    from eqrm.linear.moments.domain_moments import DomainMoments


def float64(values: Any, name: str) -> Tensor:
    """A float64 tensor of what holds numbers."""
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(f"{name} must hold numbers, in rows of the same length.") from None


def check_shapes(moments: DomainMoments) -> None:
    """Names, counts, means and covariances of one size."""
    E, k = len(moments.names), len(moments.features) + 1
    if E == 0:
        raise DomainDataError("At least one domain is needed.")
    needed = {"counts": (E,), "mean": (E, k), "covariance": (E, k, k), "remainder": (E, k)}
    for name, shape in needed.items():
        value = getattr(moments, name)
        if value is None and name == "remainder":
            continue
        if not isinstance(value, Tensor) or value.dtype != torch.float64:
            raise DomainDataError(f"{name} must be a float64 tensor.")
        if tuple(value.shape) != shape:
            raise DomainDataError(
                f"{name} must have shape {shape} ({E} domains, {k - 1} features and the "
                f"target), but its shape is {tuple(value.shape)}."
            )
    columns = (*moments.features, moments.target)
    for what, names in (("domain", moments.names), ("column", columns)):
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise DomainDataError(f"Every {what} needs a name of its own: {twice!r} comes twice.")


def check_values(moments: DomainMoments) -> None:
    """Rows in every domain, finite numbers, symmetric semidefinite covariances."""
    columns = (*moments.features, moments.target)
    if not bool((moments.counts > 0).all()):
        e = int((~(moments.counts > 0)).nonzero()[0])
        raise DomainDataError(f"Domain {moments.names[e]!r} has no rows.")
    for value in (moments.mean, moments.covariance):
        bad = (~torch.isfinite(value)).nonzero()
        if len(bad):
            e, j = int(bad[0, 0]), int(bad[0, -1])
            raise DomainDataError(
                f"Column {columns[j]!r} of domain {moments.names[e]!r} has moments that are not "
                "finite numbers."
            )
    _check_semidefinite(moments, columns)


def _check_semidefinite(moments: DomainMoments, columns: tuple[str, ...]) -> None:
    scale = moments.covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
    both = scale.unsqueeze(1) * scale.unsqueeze(2)
    slack = 1e-9 * both + 1e-15 * scale.amax(dim=1)[:, None, None] ** 2
    skew = (moments.covariance - moments.covariance.mT).abs() > slack
    bad = (skew | (moments.covariance.abs() > both + slack)).nonzero()
    if len(bad):
        e, i, j = bad[0].tolist()
        raise DomainDataError(
            f"The covariance of {columns[i]!r} and {columns[j]!r} in domain "
            f"{moments.names[e]!r} cannot be: the matrix must be symmetric and positive "
            "semidefinite."
        )
    correlation = moments.covariance / torch.where(both > 0, both, 1.0)
    negative = torch.linalg.eigvalsh(correlation)[:, 0] < -1e-8
    if bool(negative.any()):
        e = int(negative.nonzero()[0])
        raise DomainDataError(
            f"The covariance of domain {moments.names[e]!r} is not positive semidefinite."
        )
