"""Moments of many domains in one pass over batches of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.frames import frame_columns, in_memory, is_frame, number_matrix
from eqrm.domains import number_domains
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
        share = other.count / total
        self.offset = self.offset + step * share
        self.scatter = self.scatter + other.scatter + np.outer(step, step) * (self.count * share)
        self.count = total


def default_names(features: int) -> tuple[str, ...]:
    """What features without a name are called: x1, x2, …"""
    return tuple(f"x{j + 1}" for j in range(features))


class MomentAccumulator:
    """Accumulates batches (X, y, domains) in one :class:`RunningMoments` per domain.

    The columns of frames are found by the names of ``features``, those of the first batch unless
    given.
    """

    def __init__(self, features: Sequence[str] | None, target: str = "y") -> None:
        self.features = None if features is None else tuple(map(str, features))
        self.target = target
        self.parts: dict[str, RunningMoments] = {}

    def add(self, X: Any, y: Any, domains: Any) -> None:
        """Take in a batch; ``domains`` is one name for all its rows, or one per row."""
        columns, response = self._matrix(X), _numbers(y, "y", 1)
        if len(columns) != len(response):
            rows = f"{len(columns)} and {len(response)}"
            raise DomainDataError(f"X and y must have the same number of rows, got {rows}.")
        if isinstance(domains, (str, int, np.integer)):
            self._add_rows(str(domains), columns, response)
            return
        if np.ndim(domains) == 0:
            raise DomainDataError(
                "domains must hold a name per row, or be a string or an integer that names all "
                f"rows, got {domains!r}."
            )
        numbered = number_domains(domains, len(response))
        names = map(str, numbered.names)
        order = np.argsort(numbered.ids, kind="stable")
        counts = np.bincount(numbered.ids, minlength=len(numbered.names))
        for name, count, end in zip(names, counts, np.cumsum(counts), strict=True):
            own = order[end - count : end]
            self._add_rows(name, columns[own], response[own])

    def _matrix(self, X: Any) -> NDArray[Any]:
        if is_frame(X):
            names = {str(name): name for name in frame_columns(X)}
            self.features = self.features or tuple(names)
            return number_matrix(X, [names.get(name, name) for name in self.features])
        columns = _numbers(X, "X", 2)
        self.features = self.features or default_names(columns.shape[1])
        if columns.shape[1] != len(self.features):
            raise DomainDataError(
                f"X must have {counted(len(self.features), 'column')} ({listed(self.features)}), "
                f"got {columns.shape[1]}."
            )
        return columns

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
        """Name the column whose values, or their squares, are not finite."""
        with np.errstate(over="ignore"):
            largest = (np.abs(rows) ** 2).max(axis=0)
        column = (*(self.features or ()), self.target)[int(np.argmax(~np.isfinite(largest)))]
        raise DomainDataError(
            f"Column {column!r} of domain {name!r} contains values that are missing, infinite, or "
            "so large that their squares overflow. Drop such rows, fill them in, or divide the "
            "column by a constant."
        )


def _numbers(values: Any, name: str, dimensions: int) -> NDArray[Any]:
    """An array of numbers, not copied where it is one."""
    array = in_memory(values)
    if array.dtype.kind not in "biuf":
        try:
            if array.dtype.kind in "cmM":
                raise TypeError("not a number")
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise DomainDataError(
                f"{name} must hold numbers, got the type {array.dtype}."
            ) from None
    if array.ndim != dimensions:
        shape = "(rows, features)" if dimensions == 2 else "(rows,), one number per row"
        raise DomainDataError(f"{name} must have the shape {shape}, got {array.shape}.")
    return array
