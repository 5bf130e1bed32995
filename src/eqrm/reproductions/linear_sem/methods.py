"""ERM, IRM, VREx and EQRM on the linear-SEM tasks, and how their settings are chosen.

As in the code beside the IRM paper: least squares on all three domains; the others on the first
two, with the weight (here also the level) that has the least risk on the third.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from eqrm.level import Level
from eqrm.linear.baselines import LinearERM, LinearIRM, LinearVREx
from eqrm.linear.linear_qrm import LinearQRM
from eqrm.linear.moments.domain_moments import DomainMoments
from eqrm.reproductions.linear_sem.settings import (
    EQRM_LEVELS,
    IRM_WEIGHTS,
    LIMIT_LEVELS,
    LIMIT_WEIGHTS,
    VREX_WEIGHTS,
)


def penalised(
    model: type[LinearIRM] | type[LinearVREx], moments: DomainMoments, weights: Sequence[float]
) -> list[Tensor]:
    """Coefficients for each weight, the penalty raised step by step from least squares."""
    found = [LinearERM(intercept=False).fit(moments).coefficients]
    for weight in weights:
        settings = {"intercept": False, "starts": [found[-1].tolist()], "max_steps": 1000}
        found.append(model(weight, **settings).fit(moments).coefficients)
    return found[1:]


def levels(moments: DomainMoments, wanted: Sequence[Level]) -> list[Tensor]:
    """EQRM's coefficients for each level."""
    return list(LinearQRM(intercept=False).path(wanted, moments).coefficients)


def fit_all(moments: DomainMoments) -> dict[str, tuple[Tensor, str]]:
    """Coefficients (10,) of every method and the setting that was chosen."""
    train, held_out = moments.subset(moments.names[:2]), moments.subset(moments.names[2:])
    candidates = {
        "IRM": (penalised(LinearIRM, train, IRM_WEIGHTS), [f"{w:g}" for w in IRM_WEIGHTS]),
        "VREx": (penalised(LinearVREx, train, VREX_WEIGHTS), [f"{w:g}" for w in VREX_WEIGHTS]),
        "EQRM": (levels(train, EQRM_LEVELS), [str(level) for level in EQRM_LEVELS]),
    }
    chosen = {"ERM": (LinearERM(intercept=False).fit(moments).coefficients, "")}
    for name, (found, settings) in candidates.items():
        risks = [float(held_out.risks(each)) for each in found]
        best = risks.index(min(risks))
        chosen[name] = (found[best], settings[best])
    return chosen


def limits(moments: DomainMoments) -> dict[str, Tensor]:
    """Where each method ends with all three domains, as its weight or level grows."""
    return {
        "ERM": LinearERM(intercept=False).fit(moments).coefficients,
        "IRM": penalised(LinearIRM, moments, LIMIT_WEIGHTS)[-1],
        "VREx": penalised(LinearVREx, moments, LIMIT_WEIGHTS)[-1],
        "EQRM": levels(moments, LIMIT_LEVELS)[-1],
    }
