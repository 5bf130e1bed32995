"""Where are E quadratic functions equal, and where is their common value lowest?

E − 1 quadratic equations have no general solution in closed form, but three steps decide most
systems that domains give rise to, and each step is a proof:

1. **Reduce.** A semidefinite difference q_e − q_f vanishes on its kernel only: an affine set.
   The same holds for any combination of differences.
2. **Split.** A difference that is a product of two linear factors vanishes where one of them
   does: two affine pieces (an intervention by `do` or by scale gives such differences).
3. **Bound.** On equal values the common value is at least the mean value, which is strictly
   convex; its minimiser on a piece, where the values are equal, is the only lowest point there.

What no step decides is searched for points, with a combination Σλ_e q_e, Σλ_e = 1, that is
strictly convex with its minimum at the best point as the proof that it is the lowest; or it is
left undecided.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from studies.causal.common_zeros import find_common_zeros, independent_forms, lowest_common_zeros
from studies.causal.proofs import degenerate_ratios, is_confined, minimum_kernel, span_of_points
from studies.causal.quadratic_forms import (
    UNSURE,
    Floats,
    FormShape,
    Piece,
    factors_of,
    form_shape,
    kernel_of,
    kernel_of_row,
)

TIE = 1e-9
MAX_PIECES = 20_000
TOO_COARSE = 1e-8


@dataclass
class Exploration:
    """What is known: lowest points, affine pieces of equal values, steps taken, open questions."""

    points: list[tuple[float, Floats]] = field(default_factory=list)
    equal_pieces: list[Piece] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    undecided: list[str] = field(default_factory=list)

    @property
    def lowest(self) -> float:
        """The lowest common value found so far."""
        return min((value for value, _ in self.points), default=float("inf"))

    def minimisers(self) -> list[Floats]:
        """The distinct points with the lowest value."""
        found: list[Floats] = []
        limit = self.lowest + TIE * (1 + abs(self.lowest))
        for value, point in sorted(self.points, key=lambda pair: pair[0]):
            near = any(np.linalg.norm(point - w) <= 1e-6 * (1 + np.linalg.norm(w)) for w in found)
            if value <= limit and not near:
                found.append(point)
        return found


class Explorer:
    """Takes pieces apart until each is decided. ``forms`` is Q (E, K+1, K+1)."""

    def __init__(self, forms: Floats, *, rounding: float = 1e-12, everything: bool = False) -> None:
        self.forms = forms
        self.mean = forms.mean(axis=0)
        self.everything = everything
        self.known: list[Floats] = []
        self.result = Exploration()
        size = np.abs(forms).max(axis=(1, 2))
        first, second = _pairs(len(forms))
        self.differences = forms[first] - forms[second]
        self.rounding = rounding
        self.noises = rounding * (size[first] + size[second])

    def run(self, known: Floats | None = None) -> Exploration:
        """Decide all of the space; ``known`` is a point of equal values to begin with."""
        if known is not None:
            self.known = [known]
            self._add_point(Piece.everything(self.forms.shape[1] - 1), known)
        if self.rounding > TOO_COARSE:
            self.result.undecided.append(
                "nothing: the features are so nearly collinear that rounding hides their risks"
            )
            return self.result
        todo = [Piece.everything(self.forms.shape[1] - 1)]
        seen = 0
        while todo:
            seen += 1
            if seen > MAX_PIECES:
                self.result.undecided.append(f"more than {MAX_PIECES} pieces")
                break
            todo.extend(self._decide(todo.pop()))
        return self.result

    def _decide(self, piece: Piece) -> list[Piece]:
        """Close the piece, or give the smaller ones that hold all its points of equal value."""
        if self._closed_by_bound(piece) or self._closed_as_point(piece):
            return []
        growth = float(np.abs(piece.map).max()) ** 2
        forms, noises = piece.restrict(self.differences), self.noises * growth
        shapes = [form_shape(form, noise) for form, noise in zip(forms, noises, strict=True)]
        if all(shape.kind == "zero" for shape in shapes):
            self._close_equal(piece)
            return []
        for step in (self._reduce, self._split):
            parts = step(piece, shapes)
            if parts is not None:
                return parts
        basis = independent_forms(forms, noises)
        parts = self._split_pencil(piece, basis, float(noises.max()))
        return self._search(piece, basis) if parts is None else parts

    def _closed_by_bound(self, piece: Piece) -> bool:
        w, value = self.lowest_mean(piece)
        if self.everything:
            return False
        limit = self.result.lowest
        if value > limit + TIE * (1 + abs(limit)):
            self.result.steps["pieces where even the mean risk is larger"] += 1
            return True
        if self._equal_at(w):
            self.result.points.append((value, w))
            self.result.steps["pieces whose lowest mean risk is attained with equal risks"] += 1
            return True
        return False

    def _closed_as_point(self, piece: Piece) -> bool:
        if piece.dimension > 0:
            return False
        w = piece.point(np.zeros(0))
        if self._equal_at(w):
            self._close_equal(piece)
        elif self._equal_at(w, 10 * UNSURE):
            self.result.undecided.append(
                "a predictor whose risks are so nearly equal that rounding may be the difference"
            )
        else:
            self.result.steps["predictors left over whose risks differ"] += 1
        return True

    def lowest_mean(self, piece: Piece) -> tuple[Floats, float]:
        """The point (K,) of a piece with the lowest mean value, and that value."""
        mean = piece.restrict(self.mean)
        u = np.asarray(-np.linalg.solve(mean[1:, 1:], mean[1:, 0]), dtype=np.float64)
        h = np.append(1.0, u)
        return piece.point(u), float(h @ mean @ h)

    def _equal_at(self, w: Floats, tolerance: float = 100.0) -> bool:
        h = np.append(1.0, w)
        values = np.einsum("i,eij,j->e", h, self.differences, h)
        return bool((np.abs(values) <= tolerance * self.noises * (h @ h)).all())

    def _add_point(self, piece: Piece, u: Floats) -> None:
        w = piece.point(u)
        h = np.append(1.0, w)
        self.result.points.append((float(h @ self.mean @ h), w))

    def _close_equal(self, piece: Piece) -> None:
        w, value = self.lowest_mean(piece)
        self.result.points.append((value, w))
        self.result.equal_pieces.append(piece)
        self.result.steps["affine pieces on which all risks are equal"] += 1

    def _reduce(self, piece: Piece, shapes: list[FormShape]) -> list[Piece] | None:
        usable = [shape for shape in shapes if shape.kind == "semidefinite"]
        if not usable:
            return None
        self.result.steps["reductions by a semidefinite difference of two risks"] += 1
        return _some(piece.within(kernel_of(max(usable, key=lambda shape: shape.rank))))

    def _split(self, piece: Piece, shapes: list[FormShape]) -> list[Piece] | None:
        for shape in shapes:
            if shape.kind == "two factors":
                self.result.steps["splits by a difference with two linear factors"] += 1
                return [
                    part
                    for row in factors_of(shape)
                    for part in _some(piece.within(kernel_of_row(row)))
                ]
        return None

    def _split_pencil(self, piece: Piece, basis: Floats, noise: float) -> list[Piece] | None:
        """Two conics in the plane: one of their combinations is a pair of lines or a point."""
        if piece.dimension != 2 or len(basis) < 2:
            return None
        for ratio in degenerate_ratios(basis[0], basis[1]):
            form = basis[0] + ratio * basis[1]
            shape = form_shape(form / np.abs(form).max(), 1e-10)
            if shape.kind in ("semidefinite", "two factors"):
                self.result.steps["two conics reduced to lines"] += 1
                single = self._reduce(piece, [shape])
                return self._split(piece, [shape]) if single is None else single
        return None

    def _search(self, piece: Piece, basis: Floats) -> list[Piece]:
        zeros = _joined(self._known_in(piece), find_common_zeros(basis))
        hull = span_of_points(zeros)
        if hull.shape[1] <= piece.dimension and is_confined(basis, hull):
            self.result.steps["reductions by a definite combination of differences"] += 1
            return _some(piece.within(hull)) if hull.shape[1] else []
        if len(zeros) == 0:
            self.result.undecided.append(
                f"a piece of dimension {piece.dimension} with {len(basis)} equations: no point "
                "of equal risks was found from 64 starts, and none was excluded"
            )
            return []
        return self._settle(piece, basis, zeros)

    def _known_in(self, piece: Piece) -> Floats:
        """The known points of equal value that lie in the piece, in its coordinates."""
        origin, directions = piece.map[1:, 0], piece.map[1:, 1:]
        inside = [directions.T @ (w - origin) for w in self.known]
        kept = [
            u
            for u, w in zip(inside, self.known, strict=True)
            if np.linalg.norm(piece.point(u) - w) < 1e-9
        ]
        return np.array(kept).reshape(-1, piece.dimension)

    def _settle(self, piece: Piece, basis: Floats, zeros: Floats) -> list[Piece]:
        """Prove that the lowest zero found is the lowest, by weights of the risks that sum to 1.

        Σλ_e q_e = q̄ + Σc_iF_i is the common value wherever values are equal. If it is convex with
        its minimum at the best zero, nothing is lower, and what is as low lies in its kernel.
        """
        mean = piece.restrict(self.mean)
        candidates = _joined(self._known_in(piece), lowest_common_zeros(basis, mean, zeros))
        candidates = np.concatenate([candidates, zeros])
        h = np.concatenate([np.ones((len(candidates), 1)), candidates], axis=1)
        best = candidates[int(np.einsum("si,ij,sj->s", h, mean, h).argmin())]
        kernel = minimum_kernel(basis, mean, best)
        if kernel is None:
            self.result.undecided.append(
                f"a piece of dimension {piece.dimension} with {len(basis)} equations: "
                f"{len(zeros)} points of equal risks from 64 starts, and no proof that none is "
                "lower"
            )
        flat = kernel is not None and kernel.shape[1] > piece.dimension
        for u in candidates if kernel is None or flat else [best]:
            self._add_point(piece, u)
        if kernel is not None:
            self.result.steps["pieces settled by a convex combination of risks"] += 1
            if 1 < kernel.shape[1] <= piece.dimension:
                return _some(piece.within(kernel))
        return []


def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs of a few domains; of many, each with the first."""
    if count <= 24:
        return np.triu_indices(count, 1)[::-1]
    return np.arange(1, count), np.zeros(count - 1, dtype=np.intp)


def _some(piece: Piece | None) -> list[Piece]:
    return [] if piece is None else [piece]


def _joined(known: Floats, found: Floats) -> Floats:
    """Both, without what the search found around a known point (double zeros are imprecise)."""
    far = [
        u
        for u in found
        if all(np.linalg.norm(u - v) > 1e-3 * (1 + np.linalg.norm(v)) for v in known)
    ]
    return np.concatenate([known, np.array(far).reshape(-1, found.shape[1])])
