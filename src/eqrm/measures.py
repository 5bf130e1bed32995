"""From the name of a distribution, or a user's own class, to the quantile of some risks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eqrm.distributions.empirical import Empirical
from eqrm.distributions.gaussian import Gaussian
from eqrm.distributions.kernel import KDE
from eqrm.distributions.lognormal import LogNormal
from eqrm.errors import LevelError, SettingError
from eqrm.level import Level
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


def resolve_distribution(distribution: str | Estimator) -> Estimator:
    """The class behind a name, or the user's own.

    >>> resolve_distribution("gaussian").__name__
    'Gaussian'
    """
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
    """Whether it has an argument ``weights``, as domains absent from a batch need.

    >>> takes_weights(KDE), takes_weights(lambda risks: None)
    (True, False)
    """
    if estimator in DISTRIBUTIONS.values():
        return True
    try:
        parameters = inspect.signature(estimator).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature
        return True
    return any(p.name == "weights" or p.kind is p.VAR_KEYWORD for p in parameters)


def estimate(
    estimator: Estimator, risks: Tensor, weights: Tensor | None, options: dict[str, Any]
) -> Any:
    """The distribution of these risks; ``weights`` are passed only where there are any."""
    if weights is None:
        return estimator(risks, **options)
    return estimator(risks, weights=weights, **options)


def quantile_at(distribution: Any, level: Level) -> Tensor:
    """``icdf`` at a level; a distribution of torch's own takes α itself.

    >>> quantile_at(Gaussian([0.0, 1.0]), Level(0.5))
    tensor(0.5000)
    >>> quantile_at(torch.distributions.Exponential(1.0), Level(0.5))
    tensor(0.6931)
    """
    value: Tensor
    if isinstance(distribution, torch.distributions.Distribution):
        if level.alpha == 1.0:
            raise LevelError(
                f"alpha = {level} is 1 as a floating-point number, which is all that the icdf of "
                f"{type(distribution).__name__} takes. Use one of eqrm's own distributions."
            )
        value = distribution.icdf(torch.as_tensor(level.alpha))
    else:
        value = distribution.icdf(level)
    return value
