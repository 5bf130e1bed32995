"""Algorithm 1 of the paper with its default estimator, as published: the alternative to beat.

Written from the paper's description (appendix, "Algorithm") and from what its authors' code is
known to do: Gaussian kernels through ``torch.distributions``, the inverse CDF by 32 steps of
bisection, and the gradient by back-propagation through all of them. Two points of the text are
read as they were meant: the CDF of a kernel is Phi((x - L_m)/h), where Algorithm 1 prints
L_m + h Phi(x), and the bracket is the smallest and the largest kernel quantile.

The gradient is wrong for three or more domains: a branch carries no gradient, so all of it goes
to the smallest risk, the largest risk and the bandwidth.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

STEPS = 32
TAIL_BRANCH = -20.0
"""Below this log(1 - alpha) the level itself is 1 in float32, and the published code leaves the
bisection for mean + h sqrt(-2 log(1 - alpha))."""


def gaussian_optimal(risks: Tensor) -> Tensor:
    """h = (4/(3m))^0.2 times the sample standard deviation."""
    return float((4.0 / (3.0 * len(risks))) ** 0.2) * risks.std()


def kernel_cdf(x: Tensor, risks: Tensor, bandwidth: Tensor) -> Tensor:
    """The mean over domains of the CDF of N(L_m, h^2) at ``x``.

    Every evaluation builds m kernels, each with a location, a scale and a copy of ``x`` of its
    own, as a direct transcription of Algorithm 1 does.
    """
    scales = bandwidth * torch.ones_like(risks)
    kernels: Tensor = Normal(risks, scales).cdf(x.repeat(len(risks)))
    return kernels.mean()


def published_quantile(risks: Tensor, alpha: float, log_tail: float | None = None) -> Tensor:
    """The KDE quantile of risks of shape ``(m,)`` as published, under autograd.

    >>> risks = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    >>> round(published_quantile(risks, 0.5).item(), 6)
    2.254324
    """
    bandwidth = gaussian_optimal(risks)
    log_tail = math.log1p(-alpha) if log_tail is None else log_tail
    if log_tail < TAIL_BRANCH:
        return risks.mean() + bandwidth * math.sqrt(-2.0 * log_tail)
    kernel_quantiles: Tensor = Normal(risks, bandwidth.expand_as(risks)).icdf(
        risks.new_tensor(alpha)
    )
    ends = [kernel_quantiles.min(), kernel_quantiles.max()]
    middle = 0.5 * (ends[0] + ends[1])
    for _ in range(STEPS):
        middle = 0.5 * (ends[0] + ends[1])
        # int() of a tensor waits for the device: one host synchronisation a step.
        ends[int(kernel_cdf(middle, risks, bandwidth) > alpha)] = middle
    return middle
