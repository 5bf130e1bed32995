"""Means and covariances of many domains in one pass over rows that arrive in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eqrm.domains import name_order, number_domains
from eqrm.errors import DomainDataError

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


class MomentAccumulator:
    """Takes batches (X, y, domains) and keeps one :class:`RunningMoments` per domain."""

    def __init__(self, features: Sequence[str] | None, target: str) -> None:
        self.features = None if features is None else tuple(str(name) for name in features)
        self.target = target
        self.parts: dict[str, RunningMoments] = {}

    def add(self, X: Any, y: Any, domains: Any) -> None:
        """Take in a batch; ``domains`` is one name for all its rows, or one per row."""
        columns, response = as_matrix(X), as_vector(y)
        self._check(columns, response)
        if np.ndim(domains) == 0 and not isinstance(domains, (str, int, np.integer)):
            raise DomainDataError(
                "Domains must be a name per row, or a text or whole number that names all of them, "
                f"but {domains!r} came."
            )
        if isinstance(domains, (str, int, np.integer)):
            self._add_rows(str(domains), columns, response)
            return
        numbered = number_domains(domains, len(response))
        ids, names = numbered.ids, numbered.names
        order = np.argsort(ids, kind="stable")
        ends = np.cumsum(np.bincount(ids, minlength=len(names)))
        for position, name in enumerate(names):
            start = 0 if position == 0 else int(ends[position - 1])
            rows = order[start : int(ends[position])]
            self._add_rows(str(name), columns[rows], response[rows])

    def _check(self, columns: NDArray[Any], response: NDArray[Any]) -> None:
        if self.features is None:
            self.features = tuple(f"x{j + 1}" for j in range(columns.shape[1]))
        if columns.shape[1] != len(self.features):
            raise DomainDataError(
                f"X must have {len(self.features)} columns ({', '.join(self.features[:8])}"
                f"{', …' if len(self.features) > 8 else ''}), but it has {columns.shape[1]}."
            )
        if len(columns) != len(response):
            raise DomainDataError(
                f"X and y must have as many rows as each other: X has {len(columns)}, "
                f"y {len(response)}."
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
        raise DomainDataError(
            f"Column {columns[column]!r} of domain {name!r} holds {rows[row, column]}. Every "
            "value must be a finite number: drop such rows or fill them in."
        )

    def ordered(self) -> list[tuple[str, RunningMoments]]:
        """The domains by number if all names are integers, else by name."""
        if not self.parts:
            raise DomainDataError("There are no rows: at least one domain with a row is needed.")
        return sorted(self.parts.items(), key=lambda item: name_order(item[0]))


def as_matrix(X: Any) -> NDArray[Any]:
    """X as a numeric (n, d) array, not copied where it is one."""
    array = as_array(X, "X")
    if array.ndim != 2 or array.shape[1] == 0:
        raise DomainDataError(
            f"X must have shape (rows, features), but its shape is {array.shape}."
        )
    return array


def as_vector(y: Any) -> NDArray[Any]:
    """y as a numeric (n,) array, not copied where it is one."""
    array = as_array(y, "y")
    if array.ndim != 1:
        raise DomainDataError(
            f"y must be a vector with one number per row, but its shape is {array.shape}."
        )
    return array


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Numbers as an array, not copied where they are one; what is no number is refused."""
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError:
        raise DomainDataError(f"{name} must have rows of the same length.") from None
    if array.dtype.kind in "biuf":
        return array
    refusal = DomainDataError(f"{name} must hold numbers, but its type is {array.dtype}.")
    if array.dtype.kind in "cmM":
        raise refusal
    try:
        if hasattr(values, "to_numpy"):  # pandas, in which a missing number is no float
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise refusal from None
