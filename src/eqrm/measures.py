"""What of the distribution of the risk is minimised or reported, and of which distribution.

| measure         | is                                                        | distribution |
|-----------------|-----------------------------------------------------------|--------------|
| "quantile"      | the risk that a share α of new domains does not exceed    | kde          |
| "superquantile" | the mean risk of the share 1−α beyond the quantile (CVaR) | empirical    |
| "worst"         | the largest risk: the empirical superquantile at level 1  | empirical    |
| "mean"          | the mean risk, ERM: every superquantile at level 0        | any          |

The distribution is the one that is estimated unless another is given.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

from eqrm.arrays import Values
from eqrm.checks import one_of
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.gaussian import Gaussian, LogNormal
from eqrm.distributions.kernel import KDE
from eqrm.errors import EqrmWarning, LevelError, SettingError
from eqrm.level import MEASURES, Level
from eqrm.text import did_you_mean

Estimator = Callable[..., Any]

DISTRIBUTIONS: dict[str, Estimator] = {
    "empirical": Empirical,
    "gaussian": Gaussian,
    "kde": KDE,
    "lognormal": LogNormal,
}

UNBOUNDED = (Gaussian, KDE, LogNormal)
"""The distributions that have no quantile at the levels 0 and 1."""


class QuantileBelowRisksWarning(EqrmWarning):
    """The quantile that is minimised lies below every risk."""


def warn_below_risks(level: Level, quantile: float, smallest: float, stacklevel: int = 1) -> bool:
    """Warn where the quantile lies below the smallest risk; whether it does."""
    if quantile < smallest:
        warnings.warn(
            f"The quantile at alpha = {level} is {quantile:.6g}, below the smallest "
            f"risk {smallest:.6g}. Minimising it rewards risks that are far apart, and it "
            "may have no minimum. Use distribution='empirical' or a higher alpha.",
            QuantileBelowRisksWarning,
            stacklevel=stacklevel + 1,
        )
    return quantile < smallest


def measured_distribution(measure: str, distribution: str | Estimator | None) -> str | Estimator:
    """The distribution that a measure is taken of: the given one, or the measure's own (None)."""
    own = MEASURES[one_of(measure, MEASURES, "measure")]
    if distribution is None:
        return own
    if measure == "worst" and distribution != own:
        raise SettingError(
            "measure='worst' is the largest of the domains' risks, which only the empirical "
            f"distribution has, got distribution={distribution!r}. Leave out distribution, or use "
            "measure='superquantile' at a level below 1."
        )
    return distribution


def measured_level(measure: str, alpha: Level | float | str | None) -> Level | None:
    """The level at which a measure is taken; None is the mean, whatever the measure."""
    if measure == "mean" or alpha is None:
        return None
    return Level(1.0) if measure == "worst" else Level.of(alpha)


def below_one(level: Level, what: str) -> Level:
    """The level itself, if the superquantile of an unbounded distribution is finite there."""
    if level.log_tail == -math.inf:
        raise LevelError(
            f"{what} has no largest value, so its superquantile at alpha = 1 is infinite. Use "
            "distribution='empirical', whose superquantile at 1 is the largest risk, or a level "
            "below 1."
        )
    return level


def resolve_distribution(distribution: str | Estimator) -> Estimator:
    """The class behind a name, or the user's own."""
    if isinstance(distribution, str):
        if distribution not in DISTRIBUTIONS:
            raise SettingError(
                f"Unknown distribution {distribution!r}. "
                f"{did_you_mean(distribution, DISTRIBUTIONS)} A class with a differentiable icdf "
                "is accepted too."
            )
        return DISTRIBUTIONS[distribution]
    if not callable(distribution):
        raise SettingError(
            "distribution must be a name or a class that takes the risks and has a "
            f"differentiable icdf, got {type(distribution).__name__}."
        )
    return distribution


def takes_weights(estimator: Estimator) -> bool:
    """Whether it has an argument ``weights``, as domains absent from a batch need."""
    if estimator in DISTRIBUTIONS.values():
        return True
    try:
        parameters = inspect.signature(estimator).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return True
    return any(p.name == "weights" or p.kind is p.VAR_KEYWORD for p in parameters)


def estimate(
    estimator: Estimator, risks: Values, weights: Values | None, options: dict[str, Any]
) -> Any:
    """The distribution of these risks; ``weights`` are passed only where there are any."""
    if weights is None:
        return estimator(risks, **options)
    return estimator(risks, weights=weights, **options)


def quantile_at(distribution: Any, level: Level) -> Values:
    """``icdf`` at a level; a distribution of torch's own takes α itself."""
    if hasattr(distribution, "batch_shape"):
        import torch

        if level.alpha == 1.0:
            raise LevelError(
                f"alpha = {level} is 1 as a floating-point number, which is all that the icdf of "
                f"{type(distribution).__name__} takes. Use one of eqrm's own distributions."
            )
        return distribution.icdf(torch.as_tensor(level.alpha))
    return distribution.icdf(level)
