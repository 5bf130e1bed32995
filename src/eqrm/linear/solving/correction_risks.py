"""Log-loss of scores that are shifted and scaled: the risk of every domain, with derivatives.

Scores s of K classes enter as C = K−1 outputs f⁰ (the logit of the second of two classes, else the
contrasts Bᵀs), and the corrected outputs are f = a + b·f⁰: one shift per output, one scale for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqrm.linear.solving.logistic_risks import LogisticRisks, LogisticRisksAt
from eqrm.linear.solving.risk_functions import Array


@dataclass(frozen=True, eq=False)
class CorrectionRisks(LogisticRisks):
    """The log-loss of each domain in θ = (a_1 … a_C, b); without ``scaled``, b is 1.

    ``rows`` (n, C) are the outputs f⁰, sorted by domain like everything else.

    >>> outputs, labels = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    >>> risks = CorrectionRisks(outputs, labels, 2, np.array([0, 2, 3]), np.array([0.5, 0.5, 1.0]))
    >>> here = risks.at(np.array([-1.0, 1.0]))
    >>> (here.mean + here.spread).round(4)
    array([0.5032, 0.3133])
    """

    scaled: bool = True

    @property
    def parameters(self) -> int:
        """C shifts and, where there is one, the scale."""
        return int(self.outputs) + self.scaled

    def at(self, theta: Array) -> CorrectionRisksAt:
        """The risks at θ."""
        shift, scale = theta[: self.outputs], theta[-1] if self.scaled else 1.0
        return CorrectionRisksAt(self, self.losses_of(lambda p: shift + scale * self.rows[p]))


class CorrectionRisksAt(LogisticRisksAt):
    """:class:`CorrectionRisks` at one θ."""

    functions: CorrectionRisks

    @property
    def slopes(self) -> tuple[Array, Array]:
        """∇R̄ (p,) and ∇R_e − ∇R̄ (m, p)."""
        risks = self.functions
        per_row = [self.loss.slope(a) for a in range(risks.outputs)]
        columns = [risks.by_domain(slope) for slope in per_row]
        if risks.scaled:
            along = sum(slope * risks.rows[:, a] for a, slope in enumerate(per_row))
            columns.append(risks.by_domain(np.asarray(along)))
        gradients = np.column_stack(columns)
        mean: Array = gradients.mean(axis=0)
        return mean, gradients - mean

    def weighted_hessian(self, weights: Array) -> Array:
        """Σ g_e ∇²R_e."""
        risks = self.functions
        per_row = np.repeat(weights, np.diff(risks.ends)) * risks.shares
        outputs, last = risks.outputs, risks.parameters - 1
        total = np.zeros((risks.parameters, risks.parameters))
        for a in range(outputs):
            for b in range(outputs):
                curved = per_row * self.loss.curvature(a, b)
                total[a, b] = curved.sum()
                if risks.scaled:
                    along = curved * risks.rows[:, b]
                    total[a, last] += along.sum()
                    total[last, last] += along @ risks.rows[:, a]
        if risks.scaled:
            total[last, :last] = total[:last, last]
        return total
