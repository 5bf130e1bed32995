"""Log-loss over linear predictors: the risk of every domain with exact derivatives.

Rows are sorted by domain once; after that a risk is a sum over a segment. With f = xᵀθ,

    R_e = Σ s_i ℓ(f_i, y_i),   ∇R_e = Σ s_i ℓ'(f_i) x_i,   ∇²R_e = Σ s_i ℓ''(f_i) x_i x_iᵀ,

where s_i = w_i/Σw is a row's share of its domain. K > 2 classes have K logits that sum to 0,
which K−1 parameters per feature span (:func:`contrasts`): nothing is left undetermined, and no
class is singled out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eqrm.linear.scored_rows import ScoredRows
from eqrm.linear.solving.risk_functions import Array, RiskFunctions, RisksAt

T = TypeVar("T")
BLOCK = 1024
"""Rows that are weighted and multiplied at a time: they stay in the processor's cache."""
LONG = 100
"""Rows per domain from which a product for each is faster than one sparse product for all."""


def contrasts(classes: int) -> Array:
    """An orthonormal basis (K, K−1) of the logits that sum to 0."""
    basis = np.zeros((classes, classes - 1))
    for k in range(1, classes):
        basis[:k, k - 1], basis[k, k - 1] = -1.0, k
        basis[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return basis


@dataclass(frozen=True, eq=False)
class LogisticRisks(RiskFunctions):
    """The log-loss of each domain in θ, C rows of q parameters (C = 1 for two classes).

    ``rows`` (n, q) are sorted by domain, ``labels`` (n,) are 0 … K−1, ``ends`` (m+1,) are where
    the domains begin and end, ``shares`` (n,) sum to 1 in each domain.
    """

    rows: Array
    labels: NDArray[np.int64]
    classes: int
    ends: NDArray[np.int64]
    shares: Array
    workers: int = 1

    @property
    def outputs(self) -> int:
        """C: 1 for two classes, K−1 for K of them."""
        return self.classes - 1

    @property
    def parameters(self) -> int:
        """C·q."""
        return int(self.outputs * self.rows.shape[1])

    @property
    def domains(self) -> int:
        """m."""
        return len(self.ends) - 1

    @cached_property
    def signs(self) -> Array:
        """±1 per row, of two classes."""
        return np.where(self.labels == 1, 1.0, -1.0)

    @cached_property
    def basis(self) -> Array:
        """Of the logits of more than two classes, (K, K−1)."""
        return contrasts(self.classes)

    def at(self, theta: Array) -> LogisticRisksAt:
        table = theta.reshape(self.outputs, -1)
        return LogisticRisksAt(self, self.losses_of(lambda part: self.rows[part] @ table.T))

    def losses_of(self, outputs: Callable[[slice], Array]) -> TwoClasses | SeveralClasses:
        """The losses of all rows, where ``outputs`` computes the outputs f (k, C) of some."""
        return (TwoClasses if self.classes == 2 else SeveralClasses)(self, outputs)

    def gradients(self, per_row: Array) -> Array:
        """Σ s_i v_i x_i in each domain (m, q)."""
        weighted = self.shares * per_row

        def of_domains(part: slice) -> Array:
            ends = self.ends[part.start : part.stop + 1]
            if len(self.rows) > LONG * self.domains:
                return np.stack([weighted[a:b] @ self.rows[a:b] for a, b in pairwise(ends)])
            first, last = int(ends[0]), int(ends[-1])
            places = np.arange(last - first, dtype=np.int32)
            sums = csr_array(
                (weighted[first:last], places, (ends - first).astype(np.int32)),
                shape=(len(ends) - 1, last - first),
            )
            return np.asarray(sums @ self.rows[first:last])

        return np.concatenate(self.shared_out(of_domains, self._domain_parts))

    def products(self, per_row: Array) -> Array:
        """Σ v_i x_i x_iᵀ (q, q) over all rows, for v (n,) of any sign."""
        width = self.rows.shape[1]

        def of_rows(part: slice) -> Array:
            total = np.zeros((width, width))
            for start in range(part.start, part.stop, BLOCK):
                block = slice(start, min(start + BLOCK, part.stop))
                rows = self.rows[block]
                total += (rows * per_row[block, None]).T @ rows
            return total

        return np.asarray(np.sum(self.shared_out(of_rows, self.row_parts), axis=0))

    def shared_out(self, work: Callable[[slice], T], parts: Sequence[slice]) -> list[T]:
        """The work on every part, in as many threads; numpy releases the GIL in long loops."""
        if len(parts) == 1:
            return [work(parts[0])]
        return list(self._pool.map(work, parts))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Kept, because new threads for every step cost a tenth of a solve."""
        return ThreadPoolExecutor(self.workers)

    @cached_property
    def row_parts(self) -> list[slice]:
        """Equally many rows for each worker, in whole blocks."""
        cuts = np.linspace(0, len(self.rows), self.workers + 1)
        inner = (cuts[1:-1] // BLOCK * BLOCK).astype(int).tolist()
        return _slices([0, *inner, len(self.rows)])

    @cached_property
    def _domain_parts(self) -> list[slice]:
        """Domains with about equally many rows for each worker."""
        goals = np.linspace(0, len(self.rows), self.workers + 1)[1:-1]
        inner = np.searchsorted(self.ends, goals).tolist()
        return _slices([0, *inner, self.domains])


def _slices(cuts: Sequence[int]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


class TwoClasses:
    """ℓ(f) = log(1 + e^(−yf)) for y = ±1, with its derivatives in f."""

    def __init__(self, risks: LogisticRisks, outputs: Callable[[slice], Array]) -> None:
        self.signs = risks.signs
        self.margins, self._small, self.losses = (np.empty(len(self.signs)) for _ in range(3))

        def fill(part: slice) -> None:
            margins = outputs(part)[:, 0] * self.signs[part]
            small = np.exp(-np.abs(margins))
            self.margins[part], self._small[part] = margins, small
            self.losses[part] = np.log1p(small) + np.maximum(-margins, 0.0)

        risks.shared_out(fill, risks.row_parts)

    @cached_property
    def _wrong(self) -> Array:
        """The probability of the other class."""
        return np.where(self.margins > 0.0, self._small, 1.0) / (1.0 + self._small)

    def slope(self, output: int) -> Array:
        """dℓ/df (n,)."""
        return -self.signs * self._wrong

    def curvature(self, one: int, other: int) -> Array:
        """d²ℓ/df² (n,)."""
        return self._small / (1.0 + self._small) ** 2


class SeveralClasses:
    """ℓ(f) = log Σ e^(z_k) − z_y with logits z = Bf, and its derivatives in f (C,)."""

    def __init__(self, risks: LogisticRisks, outputs: Callable[[slice], Array]) -> None:
        self.basis, self.labels = risks.basis, risks.labels
        logits = outputs(slice(0, len(self.labels))) @ self.basis.T
        logits -= logits.max(axis=1, keepdims=True)
        powers = np.exp(logits)
        totals = powers.sum(axis=1, keepdims=True)
        self.probabilities = powers / totals
        own = np.take_along_axis(logits, self.labels[:, None], axis=1)
        self.losses: Array = np.log(totals[:, 0]) - own[:, 0]

    @cached_property
    def _mean_contrasts(self) -> Array:
        return np.asarray(self.probabilities @ self.basis)

    def slope(self, output: int) -> Array:
        """dℓ/df_a = Σ_k p_k B_ka − B_ya."""
        return np.asarray(self._mean_contrasts[:, output] - self.basis[self.labels, output])

    def curvature(self, one: int, other: int) -> Array:
        """d²ℓ/df_a df_b = Σ p_k B_ka B_kb − (Σ p_k B_ka)(Σ p_k B_kb)."""
        means = self._mean_contrasts
        joint = self.probabilities @ (self.basis[:, one] * self.basis[:, other])
        return np.asarray(joint - means[:, one] * means[:, other])


class LogisticRisksAt(RisksAt):
    """:class:`LogisticRisks` at one θ."""

    def __init__(self, risks: LogisticRisks, loss: TwoClasses | SeveralClasses) -> None:
        self.functions, self.loss = risks, loss
        values: Array = np.add.reduceat(risks.shares * loss.losses, risks.ends[:-1])
        self.mean = float(values.mean())
        self.spread = values - self.mean

    @cached_property
    def slopes(self) -> tuple[Array, Array]:  # type: ignore[override]
        slopes = map(self.loss.slope, range(self.functions.outputs))
        gradients = np.concatenate([self.functions.gradients(slope) for slope in slopes], axis=1)
        mean: Array = gradients.mean(axis=0)
        return mean, gradients - mean

    def weighted_hessian(self, weights: Array) -> Array:
        """Σ g_e ∇²R_e, block by block of outputs."""
        risks = self.functions
        per_row = np.repeat(weights, np.diff(risks.ends)) * risks.shares
        outputs, width = risks.outputs, risks.rows.shape[1]
        total = np.empty((outputs, width, outputs, width))
        for a in range(outputs):
            for b in range(a + 1):
                total[a, :, b] = risks.products(per_row * self.loss.curvature(a, b))
                total[b, :, a] = total[a, :, b].T
        return total.reshape(risks.parameters, risks.parameters)


@dataclass(frozen=True, eq=False)
class CorrectionRisks(RiskFunctions):
    """The log-loss of each domain in θ = (a_1 … a_C, b); without ``scaled``, b is 1.

    Scores of K classes enter as C = K−1 outputs f⁰ (the logit of the second of two classes, else
    the contrasts Bᵀs), taken as (f⁰ − ``centre``)/``spread``; the corrected outputs are a + b·f⁰.
    Nothing per row is kept: rows pass by in blocks, once for the risks and their slopes and once
    for the Hessian.
    """

    rows: ScoredRows
    centre: Array
    spread: float
    scaled: bool = True

    @property
    def parameters(self) -> int:
        """C shifts and, where there is one, the scale."""
        return self.rows.classes - 1 + self.scaled

    def outputs(self, rows: slice) -> Array:
        """The standardised outputs f⁰ (k, C) of some rows."""
        scores = np.asarray(self.rows.scores[rows], dtype=np.float64)
        found = scores[:, None] if scores.ndim == 1 else scores @ contrasts(self.rows.classes)
        found = found - self.centre
        found /= self.spread
        return found

    def losses(self, theta: Array, rows: slice) -> tuple[Array, TwoClasses | SeveralClasses]:
        """The outputs f⁰ of some rows, and their losses at θ."""
        outputs, labels = self.outputs(rows), self.rows.target[rows]
        shift, scale = theta[: outputs.shape[1]], theta[-1] if self.scaled else 1.0
        block = LogisticRisks(outputs, labels, self.rows.classes, NO_ENDS, NO_SHARES)
        return outputs, block.losses_of(lambda part: shift + scale * outputs[part])

    def at(self, theta: Array) -> CorrectionRisksAt:
        return CorrectionRisksAt(self, theta)


NO_ENDS, NO_SHARES = np.zeros(0, dtype=np.int64), np.zeros(0)


class CorrectionRisksAt(RisksAt):
    """:class:`CorrectionRisks` at one θ."""

    def __init__(self, functions: CorrectionRisks, theta: Array) -> None:
        self.functions, self.theta = functions, theta
        risks, *slopes = functions.rows.means(self._loss_and_slopes)
        self.mean = float(risks.mean())
        self.spread = risks - self.mean
        gradients = np.column_stack(slopes)
        mean_slope: Array = gradients.mean(axis=0)
        self.slopes = mean_slope, gradients - mean_slope

    def _loss_and_slopes(self, rows: slice) -> Array:
        """The loss of some rows and its slope in each parameter, (1 + p, k)."""
        outputs, loss = self.functions.losses(self.theta, rows)
        slopes = [loss.slope(a) for a in range(outputs.shape[1])]
        if self.functions.scaled:
            slopes.append(sum((s * outputs[:, a] for a, s in enumerate(slopes)), np.zeros(())))
        return np.stack([loss.losses, *slopes])

    def weighted_hessian(self, weights: Array) -> Array:
        risks = self.functions
        size = risks.parameters
        upper = np.triu_indices(size)
        total = np.zeros((size, size))
        total[upper] = risks.rows.means(self._curvatures) @ weights
        return total + np.triu(total, 1).T

    def _curvatures(self, rows: slice) -> Array:
        """The second derivatives of the loss of some rows in θ, row by row of the upper half."""
        outputs, loss = self.functions.losses(self.theta, rows)
        width, scaled = outputs.shape[1], self.functions.scaled
        found, last = [], np.zeros(len(outputs))
        for a in range(width):
            along = np.zeros(len(outputs))
            for b in range(width):
                curved = loss.curvature(a, b)
                if b >= a:
                    found.append(curved)
                if scaled:
                    along += curved * outputs[:, b]
            if scaled:
                found.append(along)
                last += along * outputs[:, a]
        return np.stack([*found, last] if scaled else found)
