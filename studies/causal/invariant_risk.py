"""Invariant-risk predictors: those whose risk is the same in every domain (the paper, §4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eqrm.linear import DomainMoments
from studies.causal.equal_values import Exploration, Explorer
from studies.causal.quadratic_forms import Floats, Piece, RiskForms, check_moments, risk_forms


@dataclass(frozen=True, eq=False)
class AffineSet:
    """{point + directions·t}: predictors, intercept last where there is one.

    ``point`` (d,) is the one with the lowest risk and ``directions`` (d, r) need not be
    orthonormal; r = 0 is a single predictor.
    """

    point: Tensor
    directions: Tensor


@dataclass(frozen=True, eq=False)
class MinimalInvariantRisk:
    """The predictor with the lowest risk among those with the same risk in every domain.

    ``status`` is

    - "unique": ``coefficients`` is the only one;
    - "several": ``others`` have the same risk;
    - "continuum": every predictor along ``directions`` (d, r) has the same risk;
    - "none": no predictor has the same risk in all domains;
    - "undecided": ``coefficients`` is the best one found, None if none was.

    ``proof`` says in sentences what the status rests on, ``tried`` what was left open.
    """

    status: str
    coefficients: Tensor | None
    intercept: float
    risk: float
    proof: tuple[str, ...]
    others: tuple[Tensor, ...] = ()
    directions: Tensor | None = None
    tried: tuple[str, ...] = ()


def minimal_invariant_risk(
    moments: DomainMoments, *, intercept: bool = False
) -> MinimalInvariantRisk:
    """Find the minimal invariant-risk predictor and say whether it is the only one.

    With one changing noise there is one (appendix G.1.2, σ2 changes: the causal predictor):

    >>> from studies.causal import LinearSCM, Noise
    >>> world = LinearSCM({"X1": {}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}}, "Y")
    >>> domains = {"small": [Noise("X2", std=0.5)], "large": [Noise("X2", std=2.0)]}
    >>> answer = minimal_invariant_risk(world.population(domains))
    >>> answer.status, [round(value, 9) + 0.0 for value in answer.coefficients.tolist()]
    ('unique', [1.0, 0.0])
    """
    check_moments(moments)
    risks = risk_forms(moments, intercept)
    exploration = Explorer(risks.forms, rounding=risks.rounding).run()
    points = [risks.coefficients(w) for w in exploration.minimisers()]
    proof = describe_steps(exploration)
    best = points[0] if points else None
    beta, offset = _split_off(best, intercept)
    status = _status(exploration, risks, len(points))
    directions = None
    if status == "continuum":
        directions = torch.from_numpy(risks.flat[: moments.num_features].copy())
        proof = (*proof, "There are directions in which no domain has any variation.")
    return MinimalInvariantRisk(
        status=status,
        coefficients=beta,
        intercept=offset,
        risk=exploration.lowest * risks.unit if points else float("nan"),
        proof=proof,
        others=tuple(torch.from_numpy(point) for point in points[1:]),
        directions=directions,
        tried=tuple(exploration.undecided),
    )


def invariant_risk_predictors(
    moments: DomainMoments, *, intercept: bool = False
) -> tuple[list[AffineSet], list[str]]:
    """All predictors with the same risk in every domain, and what could not be solved.

    The first list holds affine sets, whose union they are; the second is empty when that is
    proved, and else says what is open. Isolated ones found by search are sets without directions.

    >>> from studies.causal import LinearSCM, Noise
    >>> world = LinearSCM({"X1": {}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}}, "Y")
    >>> domains = {"small": [Noise("X1", std=0.5)], "large": [Noise("X1", std=2.0)]}
    >>> (line,), unsolved = invariant_risk_predictors(world.population(domains))
    >>> line.directions.shape, unsolved
    (torch.Size([2, 1]), [])
    """
    check_moments(moments)
    risks = risk_forms(moments, intercept)
    explorer = Explorer(risks.forms, rounding=risks.rounding, everything=True)
    exploration = explorer.run()
    pieces = [_affine_set(piece, explorer, risks) for piece in exploration.equal_pieces]
    if exploration.undecided:
        pieces += [
            AffineSet(
                torch.from_numpy(risks.coefficients(w)),
                torch.from_numpy(risks.flat.copy()),
            )
            for _, w in exploration.points
        ]
    return pieces, list(exploration.undecided)


def _affine_set(piece: Piece, explorer: Explorer, risks: RiskForms) -> AffineSet:
    point = risks.coefficients(explorer.lowest_mean(piece)[0])
    directions = np.concatenate([risks.basis @ piece.map[1:, 1:], risks.flat], axis=1)
    return AffineSet(torch.from_numpy(point), torch.from_numpy(directions.copy()))


def _split_off(best: Floats | None, intercept: bool) -> tuple[Tensor | None, float]:
    if best is None:
        return None, 0.0
    return torch.from_numpy(best[:-1] if intercept else best), float(best[-1]) if intercept else 0.0


def _status(exploration: Exploration, risks: RiskForms, minimisers: int) -> str:
    if exploration.undecided:
        return "undecided"
    if minimisers == 0:
        return "none"
    if risks.flat.shape[1] > 0:
        return "continuum"
    return "unique" if minimisers == 1 else "several"


def describe_steps(exploration: Exploration) -> tuple[str, ...]:
    """The steps of an exploration in sentences."""
    return tuple(f"{count} × {step}." for step, count in sorted(exploration.steps.items()))
