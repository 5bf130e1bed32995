"""Affine pieces of the space of predictors, and how a quadratic equation cuts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ZERO = 1e-9
CLEAR = 1e-6
UNSURE = 1e3


@dataclass(frozen=True)
class Piece:
    """The affine set {w : (1, w) = map·(1, u)}, map (K+1, k+1) with first row (1, 0, …, 0)."""

    map: Floats

    @classmethod
    def everything(cls, size: int) -> Piece:
        """All of R^size."""
        return cls(np.eye(size + 1))

    @property
    def dimension(self) -> int:
        """k: 0 for a point."""
        return int(self.map.shape[1]) - 1

    def restrict(self, forms: Floats) -> Floats:
        """The quadratic forms (…, K+1, K+1) on this piece (…, k+1, k+1)."""
        restricted = self.map.T @ forms @ self.map
        return np.asarray((restricted + np.swapaxes(restricted, -1, -2)) / 2)

    def point(self, u: Floats) -> Floats:
        """w (K,) at the piece's own coordinates u (k,)."""
        return np.asarray(self.map[1:, 0] + self.map[1:, 1:] @ u)

    def within(self, kernel: Floats) -> Piece | None:
        """The part of the piece whose (1, u) lies in the span of ``kernel`` (k+1, r); None: empty.

        The basis must be orthonormal.
        """
        first = kernel[0]
        size = float(np.linalg.norm(first))
        if size < ZERO:
            return None
        anchor = kernel @ first / size**2
        rest = kernel @ _complement(first / size)
        # Directions orthonormal in w, so that what is small stays small.
        directions, _ = np.linalg.qr(self.map[:, 1:] @ rest[1:])
        return Piece(np.column_stack([self.map @ anchor, directions]))


def _complement(unit: Floats) -> Floats:
    """An orthonormal basis (n, n−1) of what is orthogonal to a unit vector (n,)."""
    q, _ = np.linalg.qr(np.column_stack([unit, np.eye(len(unit))]))
    return np.asarray(q[:, 1 : len(unit)])


def kernel_of_row(row: Floats) -> Floats:
    """An orthonormal basis of {h : row·h = 0}."""
    return _complement(row / np.linalg.norm(row))


@dataclass(frozen=True)
class Shape:
    """The eigenvalues of a form, sorted into positive, negative and zero, or "unclear"."""

    kind: str  # "zero", "semidefinite", "two factors", "indefinite", "unclear"
    rank: int
    values: Floats
    vectors: Floats


def shape_of(form: Floats, noise: float) -> Shape:
    """What the equation hᵀ·form·h = 0 says; ``noise`` is the rounding error of the entries."""
    values, vectors = np.linalg.eigh(form)
    size = float(np.abs(values).max())
    if size <= noise:
        return Shape("zero", 0, values, vectors)
    if size <= UNSURE * noise:
        return Shape("unclear", 0, values, vectors)
    zero = np.abs(values) <= max(ZERO * size, noise)
    clear = np.abs(values) >= max(CLEAR * size, 10 * noise)
    if not (zero | clear).all():
        return Shape("unclear", 0, values, vectors)
    positive, negative = int((clear & (values > 0)).sum()), int((clear & (values < 0)).sum())
    kind = "indefinite"
    if positive == 0 or negative == 0:
        kind = "semidefinite"
    elif positive == negative == 1:
        kind = "two factors"
    return Shape(kind, positive + negative, np.where(zero, 0.0, values), vectors)


def kernel_of(shape: Shape) -> Floats:
    """{h : form·h = 0}, all that a semidefinite form allows."""
    return np.asarray(shape.vectors[:, shape.values == 0])


def factors_of(shape: Shape) -> tuple[Floats, Floats]:
    """The rows a, b with form = (abᵀ + baᵀ)/2 of a form with one positive, one negative value."""
    up, down = int(shape.values.argmax()), int(shape.values.argmin())
    plus = np.sqrt(shape.values[up]) * shape.vectors[:, up]
    minus = np.sqrt(-shape.values[down]) * shape.vectors[:, down]
    return plus + minus, plus - minus
