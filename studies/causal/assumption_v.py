"""Assumption (v) of the paper's causal-recovery theorem, decided from moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.linear import DomainMoments
from studies.causal.common_zeros import is_near_a_zero
from studies.causal.equal_values import TIE, Explorer
from studies.causal.invariant_risk import describe_steps
from studies.causal.quadratic_forms import (
    Floats,
    as_floats,
    check_moments,
    excess_forms,
    residual_moments,
)

EQUAL = 1e-9
SHARP = 1e-11


@dataclass(frozen=True, eq=False)
class AssumptionV:
    """Whether the causal predictor is the only minimal invariant-risk predictor.

    ``status`` is "unique", "not unique" or "undecided". ``counterexample`` (d,) is another
    predictor with excess risk ``excess`` ≤ 0 over the causal one, the same in every domain to
    ``spread`` (relative to the risk), and ``difference`` is x = β − β̂ of the paper. ``proof``
    says what "unique" rests on, ``tried`` what was left open.

    ``homoskedastic`` is Assumption (iv), the causal predictor's own risk being the same in every
    domain: without it (v) is decided for the excess risks, as the paper writes it, and says
    nothing about recovery.
    """

    status: str
    homoskedastic: bool
    proof: tuple[str, ...]
    tried: tuple[str, ...] = ()
    counterexample: Tensor | None = None
    difference: Tensor | None = None
    excess: float = 0.0
    spread: float = 0.0


def assumption_v(moments: DomainMoments, causal: Any, *, intercept: Any = None) -> AssumptionV:
    """Decide whether 0 ≥ xᵀE_e[XXᵀ]x + 2xᵀE_e[NX], equal in all domains e, has only x = 0.

    ``causal`` (d,) is β of Y = βᵀX + N. With ``intercept`` (a number: that of the causal
    predictor) predictors have an intercept too, and 1 is one more feature.

    Note that `do` on every covariate is not enough, contrary to the paper's case 2.

    >>> from studies.causal import Do, LinearSCM
    >>> scm = LinearSCM({"X1": {"Y": 1.0}, "X2": {"Y": 1.0}, "Y": {}}, "Y")
    >>> z = 0.5**0.5
    >>> domains = {"base": [], "do X1": [Do("X1", z)], "do X2": [Do("X2", z)]}
    >>> answer = assumption_v(scm.population(domains), scm.causal_coefficients)
    >>> answer.status, round(answer.excess, 4), (7 * answer.difference).round().int().tolist()
    ('not unique', -0.3265, [-4, -4])
    """
    check_moments(moments)
    beta = as_floats(causal)
    if beta.shape != (moments.num_features,):
        raise DomainDataError(
            f"causal must hold {moments.num_features} coefficients, one per feature, got shape "
            f"{beta.shape}."
        )
    if intercept is not None:
        if isinstance(intercept, bool) or as_floats(intercept).ndim:
            raise DomainDataError(
                "intercept must be a number (b of the causal predictor βᵀx + b), or None for "
                f"predictors without one, got {intercept!r}."
            )
        beta = np.append(beta, float(intercept))
    risks = excess_forms(moments, beta, intercept is not None)
    own = residual_moments(moments, beta, intercept is not None)[2]
    same = bool(np.ptp(own) <= EQUAL * max(float(own.max()), 1e-300))
    explorer = Explorer(risks.forms, rounding=risks.rounding)
    exploration = explorer.run(known=np.zeros(risks.basis.shape[1]))
    proof = describe_steps(exploration)
    for w in exploration.minimisers():
        if np.linalg.norm(w) > 1e-6:
            x = np.asarray(-(risks.basis @ w))
            sure = is_near_a_zero(risks.forms[1:] - risks.forms[:1], w)
            return _checked(moments, beta, x, float(w @ w) * risks.unit, same, sure)
    if risks.flat.shape[1] > 0:
        return _checked(moments, beta, risks.flat[:, 0], risks.unit, same)
    if exploration.undecided:
        return AssumptionV("undecided", same, proof, tuple(exploration.undecided))
    return AssumptionV("unique", same, proof)


def _checked(
    moments: DomainMoments,
    beta: Floats,
    x: Floats,
    size: float,
    homoskedastic: bool,
    isolated: bool = False,
) -> AssumptionV:
    """Check a counter-example on the moments themselves, and claim it only if it holds.

    ``size`` is the mean of xᵀE[XXᵀ]x. The excess risks must be equal to far below it, because near
    x = 0 everything is nearly equal; or Newton's method must be known to end close by.
    """
    intercept = len(beta) > moments.num_features
    grams, cross, own = residual_moments(moments, beta, intercept)
    excess = np.einsum("i,eij,j->e", x, grams, x) + 2 * cross @ x
    unit = max(float(own.mean()), 1e-300)
    difference = float(np.ptp(excess))
    exact = difference <= SHARP * min(unit, size) or isolated
    holds = exact and difference <= EQUAL * unit and excess.mean() <= TIE * unit
    status = "not unique" if holds else "undecided"
    return AssumptionV(
        status=status,
        homoskedastic=homoskedastic,
        proof=("The counter-example's risks were computed from the moments.",) if holds else (),
        tried=() if holds else (f"a candidate whose excess risks differ by {difference:.1e}",),
        counterexample=torch.from_numpy(beta - x)[: moments.num_features],
        difference=torch.from_numpy(x.copy())[: moments.num_features],
        excess=float(excess.mean()),
        spread=difference / unit,
    )
