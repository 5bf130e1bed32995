"""Moments of many domains in one pass over batches of rows; what moments must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eqrm.data.tables.frames import frame_columns, is_frame, number_matrix
from eqrm.domains import name_order, number_domains
from eqrm.errors import DomainDataError
from eqrm.text import counted, listed

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 1 << 16


@dataclass
class RunningMoments:
    """Count, mean and scatter matrix of the rows seen so far, relative to a pivot row.

    Everything is taken of z − pivot with the first row as pivot, a subtraction that loses
    nothing where rows lie close together compared with their distance from 0. Two parts are
    put together by the update of Chan, Golub and LeVeque (1983).
    """

    pivot: Floats
    count: float
    offset: Floats
    scatter: Floats

    @classmethod
    def of(cls, rows: Floats, pivot: Floats) -> RunningMoments:
        """The moments of a block of rows (n, k)."""
        # Columns lie together in memory: sums over few long columns are then several times faster.
        centred = np.subtract(rows, pivot, order="F")
        offset = centred.mean(axis=0)
        centred -= offset
        # The rounding of the mean, removed again: a second pass is then exact to first order.
        rest = centred.mean(axis=0)
        scatter = centred.T @ centred - len(rows) * np.outer(rest, rest)
        return cls(pivot, float(len(rows)), offset + rest, scatter)

    def add(self, other: RunningMoments) -> None:
        """Take in another part, whose pivot may differ."""
        total = self.count + other.count
        step = (other.pivot - self.pivot) + other.offset - self.offset
        self.offset = self.offset + step * (other.count / total)
        self.scatter = (
            self.scatter
            + other.scatter
            + np.outer(step, step) * (self.count * (other.count / total))
        )
        self.count = total


def default_names(features: int) -> tuple[str, ...]:
    """What features without a name are called.

    >>> default_names(2)
    ('x1', 'x2')
    """
    return tuple(f"x{j + 1}" for j in range(features))


class MomentAccumulator:
    """Accumulates batches (X, y, domains) in one :class:`RunningMoments` per domain."""

    def __init__(self, features: Sequence[str] | None, target: str | None = None) -> None:
        self.features = None if features is None else tuple(str(name) for name in features)
        self.target = "y" if target is None else target
        self._names_target = target is None
        self.parts: dict[str, RunningMoments] = {}
        self._of_frame = False

    def add(self, X: Any, y: Any, domains: Any) -> None:
        """Take in a batch; ``domains`` is one name for all its rows, or one per row."""
        columns, response = as_matrix(X), as_vector(y)
        self._check(X, columns, response)
        if isinstance(domains, (str, int, np.integer)):
            self._add_rows(str(domains), columns, response)
            return
        if np.ndim(domains) == 0:
            raise DomainDataError(
                "domains must hold a name per row, or be a string or an integer that names all "
                f"rows, got {domains!r}."
            )
        numbered = number_domains(domains, len(response))
        ids, names = numbered.ids, numbered.names
        order = np.argsort(ids, kind="stable")
        ends = np.cumsum(np.bincount(ids, minlength=len(names)))
        for position, name in enumerate(names):
            start = 0 if position == 0 else int(ends[position - 1])
            rows = order[start : int(ends[position])]
            self._add_rows(str(name), columns[rows], response[rows])

    def _check(self, X: Any, columns: NDArray[Any], response: NDArray[Any]) -> None:
        if len(columns) != len(response):
            rows = f"{len(columns)} and {len(response)}"
            raise DomainDataError(f"X and y must have the same number of rows, got {rows}.")
        names = tuple(str(name) for name in frame_columns(X)) if is_frame(X) else None
        if self.features is None:
            self.features, self._of_frame = names or default_names(columns.shape[1]), bool(names)
        if self._names_target:
            free = (name for name in ("y", "target", "the target") if name not in self.features)
            self.target, self._names_target = next(free), False
        if columns.shape[1] != len(self.features):
            raise DomainDataError(
                f"X must have {counted(len(self.features), 'column')} ({listed(self.features)}), "
                f"got {columns.shape[1]}."
            )
        if names not in (None, self.features) and (
            self._of_frame or sorted(names) == sorted(self.features)
        ):
            raise DomainDataError(
                f"The columns of X must be the same in every batch, in the same order: "
                f"{listed(self.features)}, got {listed(names)}. Select them by name."
            )

    def _add_rows(self, name: str, columns: NDArray[Any], response: NDArray[Any]) -> None:
        for start in range(0, len(response), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            rows = np.empty((len(response[block]), columns.shape[1] + 1), order="F")
            rows[:, :-1] = columns[block]
            rows[:, -1] = response[block]
            known = self.parts.get(name)
            pivot = rows[0].copy() if known is None else known.pivot
            with np.errstate(invalid="ignore", over="ignore"):
                part = RunningMoments.of(rows, pivot)
            if not np.isfinite(part.scatter).all():
                self._refuse(name, rows)
            if known is None:
                self.parts[name] = part
            else:
                known.add(part)

    def _refuse(self, name: str, rows: Floats) -> None:
        columns = (*(self.features or ()), self.target)
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad) == 0:
            widest = columns[int(np.abs(rows).max(axis=0).argmax())]
            raise DomainDataError(
                f"Column {widest!r} of domain {name!r} has values so large that their squares "
                "overflow: divide it by a constant."
            )
        row, column = bad[0]
        value = "NaN" if np.isnan(rows[row, column]) else rows[row, column]
        raise DomainDataError(
            f"Column {columns[column]!r} of domain {name!r} contains {value}. Every value must be "
            "a finite number: drop such rows or fill them in."
        )

    def ordered(self) -> list[tuple[str, RunningMoments]]:
        """The domains by number if all names are integers, else by name."""
        if not self.parts:
            raise DomainDataError("At least one row is needed, got none.")
        return sorted(self.parts.items(), key=lambda item: name_order(item[0]))


def as_matrix(X: Any) -> NDArray[Any]:
    """X as a numeric (n, d) array, not copied where it is one."""
    array = number_matrix(X, frame_columns(X)) if is_frame(X) else as_array(X, "X")
    if array.ndim != 2 or array.shape[1] == 0:
        raise DomainDataError(f"X must have the shape (rows, features), got {array.shape}.")
    return array


def as_vector(y: Any) -> NDArray[Any]:
    """y as a numeric (n,) array, not copied where it is one."""
    array = as_array(y, "y")
    if array.ndim != 1:
        raise DomainDataError(f"y must hold one number per row, got the shape {array.shape}.")
    return array


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Numbers as an array, not copied where they are one; anything else is refused."""
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError:
        raise DomainDataError(f"{name} must have rows of the same length.") from None
    if array.dtype.kind in "biuf":
        return array
    refusal = DomainDataError(f"{name} must hold numbers, got the type {array.dtype}.")
    if array.dtype.kind in "cmM":
        raise refusal
    try:
        if hasattr(values, "to_numpy"):  # pandas, in which a missing number is not a float
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise refusal from None


DEPENDENT = 1e-12
"""Eigenvalues of a correlation matrix below this, times its size, are zero."""


def float64(values: Any, name: str) -> Tensor:
    """A float64 tensor of what holds numbers."""
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(f"{name} must hold numbers, in rows of the same length.") from None


def check_shapes(
    names: Sequence[str], columns: Sequence[str], counts: Tensor, mean: Tensor, covariance: Tensor
) -> None:
    """Names, counts, means and covariances of one size; ``columns`` ends with the target."""
    E, k = len(names), len(columns)
    if E == 0:
        raise DomainDataError("At least one domain is needed.")
    needed = {
        "counts": (counts, (E,)),
        "mean": (mean, (E, k)),
        "covariance": (covariance, (E, k, k)),
    }
    for name, (value, shape) in needed.items():
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
