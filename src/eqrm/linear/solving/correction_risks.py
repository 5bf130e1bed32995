"""Log-loss of scores that are shifted and scaled: the risk of every domain, with derivatives.

Scores s of K classes enter as C = K−1 outputs f⁰ (the logit of the second of two classes, else the
contrasts Bᵀs), standardised, and the corrected outputs are f = a + b·f⁰: one shift per output, one
scale for all. Nothing per row is kept: rows pass by in blocks, once for the risks and their slopes
and once for the Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqrm.linear.scored_rows import ScoredRows
from eqrm.linear.solving.logistic_risks import (
    LogisticRisks,
    SeveralClasses,
    TwoClasses,
    contrasts,
)
from eqrm.linear.solving.risk_functions import Array, RiskFunctions, RisksAt


@dataclass(frozen=True, eq=False)
class CorrectionRisks(RiskFunctions):
    """The log-loss of each domain in θ = (a_1 … a_C, b); without ``scaled``, b is 1.

    The outputs are taken as (f⁰ − ``centre``)/``spread``.

    >>> scores, labels = np.array([0.0, 1.0, 2.0]), np.array([0, 1, 1])
    >>> rows = ScoredRows.of(scores, labels, 2, np.array([0, 0, 1]))
    >>> here = CorrectionRisks(rows, np.zeros(1), 1.0).at(np.array([-1.0, 1.0]))
    >>> (here.mean + here.spread).round(4)
    array([0.5032, 0.3133])
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
        """The risks at θ."""
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
        self._slopes = mean_slope, gradients - mean_slope

    def _loss_and_slopes(self, rows: slice) -> Array:
        """The loss of some rows and its slope in each parameter, (1 + p, k)."""
        outputs, loss = self.functions.losses(self.theta, rows)
        slopes = [loss.slope(a) for a in range(outputs.shape[1])]
        if self.functions.scaled:
            slopes.append(sum((s * outputs[:, a] for a, s in enumerate(slopes)), np.zeros(())))
        return np.stack([loss.losses, *slopes])

    @property
    def slopes(self) -> tuple[Array, Array]:
        """∇R̄ (p,) and ∇R_e − ∇R̄ (m, p)."""
        return self._slopes

    def weighted_hessian(self, weights: Array) -> Array:
        """Σ g_e ∇²R_e."""
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
