"""What moments must be, and what makes coefficients undetermined, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from eqrm.errors import DomainDataError

DEPENDENT = 1e-12
"""Eigenvalues of a correlation matrix below this, times its size, are zero."""


def float64(values: Any, name: str) -> Tensor:
    """A float64 tensor of what holds numbers."""
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(f"{name} must hold numbers, in rows of the same length.") from None


def check_shapes(
    names: Sequence[str], columns: Sequence[str], tensors: Mapping[str, Tensor | None]
) -> None:
    """Names, counts, means and covariances of one size; ``columns`` ends with the target."""
    E, k = len(names), len(columns)
    if E == 0:
        raise DomainDataError("At least one domain is needed.")
    needed = {"counts": (E,), "mean": (E, k), "covariance": (E, k, k), "remainder": (E, k)}
    for name, shape in needed.items():
        value = tensors[name]
        if value is None and name == "remainder":
            continue
        if not isinstance(value, Tensor) or value.dtype != torch.float64:
            raise DomainDataError(f"{name} must be a float64 tensor.")
        if tuple(value.shape) != shape:
            raise DomainDataError(
                f"{name} must have the shape {shape} ({E} domains, {k - 1} features and the "
                f"target), got {tuple(value.shape)}."
            )
    for what, given in (("domains", names), ("columns", columns)):
        if len(set(given)) < len(given):
            twice = Counter(given).most_common(1)[0][0]
            raise DomainDataError(f"Names of {what} must be unique, got {twice!r} twice.")


def check_values(
    names: Sequence[str], columns: Sequence[str], counts: Tensor, mean: Tensor, covariance: Tensor
) -> None:
    """Rows in every domain, finite numbers, symmetric semidefinite covariances."""
    if not bool((counts > 0).all()):
        e = int((~(counts > 0)).nonzero()[0])
        raise DomainDataError(f"Domain {names[e]!r} has no rows.")
    for value in (mean, covariance):
        bad = (~torch.isfinite(value)).nonzero()
        if len(bad):
            e, j = int(bad[0, 0]), int(bad[0, -1])
            raise DomainDataError(
                f"Column {columns[j]!r} of domain {names[e]!r} has moments that are not finite."
            )
    scale = covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
    both = scale.unsqueeze(1) * scale.unsqueeze(2)
    slack = 1e-9 * both + 1e-15 * scale.amax(dim=1)[:, None, None] ** 2
    skew = (covariance - covariance.mT).abs() > slack
    bad = (skew | (covariance.abs() > both + slack)).nonzero()
    if len(bad):
        e, i, j = bad[0].tolist()
        raise DomainDataError(
            f"The covariance of {columns[i]!r} and {columns[j]!r} in domain {names[e]!r} is "
            "impossible: the matrix must be symmetric and positive semidefinite."
        )
    correlation = covariance / torch.where(both > 0, both, 1.0)
    negative = torch.linalg.eigvalsh(correlation)[:, 0] < -1e-8
    if bool(negative.any()):
        e = int(negative.nonzero()[0])
        raise DomainDataError(
            f"The covariance of domain {names[e]!r} is not positive semidefinite."
        )


def undetermined(
    mean: Tensor, covariance: Tensor, features: Sequence[str], target: str
) -> list[str]:
    """One sentence per constant column and per set of linearly dependent features.

    ``mean`` (E, d+1) and ``covariance`` (E, d+1, d+1) are per domain, the target last. The
    question is asked of all domains together, each with the same weight.
    """
    between = mean - mean.mean(dim=0)
    pooled = covariance.mean(dim=0) + between.T @ between / len(mean)
    variances = pooled.diagonal()
    # A constant column far from 0 is left with the variance of its rounding.
    floor = (8 * torch.finfo(torch.float64).eps * mean.abs().amax(dim=0)) ** 2
    constant = variances <= floor
    problems = [
        f"Feature {name!r} is constant, like the intercept: leave it out."
        for name, flag in zip(features, constant.tolist(), strict=False)
        if flag
    ]
    if bool(constant[-1]):
        problems.append(f"The target {target!r} is constant, so there is nothing to predict.")
    moving = [j for j in range(len(features)) if not bool(constant[j])]
    return problems + _dependences(pooled[moving][:, moving], [features[j] for j in moving])


def undetermined_without_intercept(second: Tensor, features: Sequence[str]) -> list[str]:
    """The same for predictors through the origin, from E[xxᵀ] (d, d) over all domains."""
    size = second.diagonal()
    if bool((size <= 0.0).any()):
        return [f"Feature {features[int(size.argmin())]!r} is 0 everywhere."]
    return _dependences(second, features)


def _dependences(pooled: Tensor, names: Sequence[str]) -> list[str]:
    if len(names) < 2:
        return []
    from scipy.sparse.csgraph import connected_components  # slow to import

    scale = pooled.diagonal().rsqrt()
    values, vectors = torch.linalg.eigh(pooled * scale[:, None] * scale)
    directions = vectors[:, values < DEPENDENT * len(names)]
    # The null directions tie features together: connected blocks of VVᵀ.
    linked = ((directions @ directions.T).abs() > 1e-6).numpy()
    _, blocks = connected_components(linked, directed=False)
    tied: dict[int, list[str]] = {}
    for j, block in enumerate(blocks.tolist()):
        if linked[j, j]:
            tied.setdefault(block, []).append(repr(names[j]))
    return [
        f"Features {', '.join(group[:-1])} and {group[-1]} are linearly dependent: leave one of "
        "them out."
        for group in tied.values()
    ]
