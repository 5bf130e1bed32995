"""How much of the spread of measured risks is sampling noise, and the risks without it.

A measured risk is the mean of n_i losses, so it varies by V + v_i: the true spread V of the
domains, and its sampling variance v_i = s²/n_i. V is the maximum of the restricted likelihood
(:mod:`eqrm.between_domains`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc

from eqrm.between_domains import (
    between_domains,
    common_variance,
    pooled_variances,
    restricted_log_likelihood,
    unit_of,
)
from eqrm.errors import DomainDataError
from eqrm.evaluation.inference.risk_checks import (
    SAME,
    Finding,
    LevelLike,
    Vector,
    checked_alpha,
    checked_counts,
    checked_risks,
    checked_variances,
    per_domain,
    without_rounding,
)

MUCH = 0.5
"""The share of noise from which a reader is warned."""
CLEAR, UNCLEAR = 0.05, 0.2
"""The p-values below which domains are said to differ, and to differ perhaps."""
LIKELY = 0.1465
"""The least likelihood, over the largest, of a standard deviation in the range that is stated."""
UNEQUAL = 0.1
"""By how much the noise of the median domain must differ from that of all to be mentioned."""
ONE_EXAMPLE = (
    "Every domain has one example, so sampling noise cannot be separated from real differences"
)
FADES_IN = 0.1, 0.4
"""Shares of noise in a domain's risk between which its removal grows from nothing to all of it.

Shrinking by one factor is right for a normal law and too much for one with a sharp edge, such as
the uniform: with little noise that costs more than the noise does.
"""
CAUTION = 3.0
"""How many standard errors V is raised by before noise is removed.

A sample whose spread is small by chance has a quantile that is too low already, and seems to
be mostly noise: without caution the two errors add up.
"""


@dataclass(frozen=True, kw_only=True)
class NoiseSplit(Finding):
    """The variance of measured risks, split into noise within domains and spread between.

    ``spread_variance`` is V, and ``spread_low`` and ``spread_high`` are the ends of the range of
    standard deviations √V whose restricted likelihood is at least ``LIKELY`` times the largest, if
    true risks are normally distributed. It is no confidence interval. ``mean`` is that of the true
    risks. ``noise_variance`` N is the mean sampling
    variance, and ``noise_share`` is N/(V + N); ``median_noise_share`` is the median over domains of
    v_i/(V + v_i), which a few tiny domains do not move. ``q`` is Cochran's Q, the weighted sum of
    squared deviations from the mean under equal risks, and ``p_value`` that of the test that risks
    are equal. V, its range and Q are of domains with two examples or more, of which there are
    ``measured``; the others have no variance of their own. ``loss_variance`` is the variance of
    losses within domains.

    ``tail_noise_share`` is the part of the distance between the mean and the risks beyond the
    α-quantile that is expected to vanish when these domains are measured again: a tail made of
    small domains is mostly noise even where the whole is not.
    """

    derived = ("sentence", "warning")

    domains: int
    measured: int
    alpha: float
    mean: float
    total_variance: float
    noise_variance: float
    loss_variance: float
    spread_variance: float
    spread_low: float
    spread_high: float
    noise_share: float
    median_noise_share: float
    tail_noise_share: float
    q: float
    p_value: float

    @property
    def sentence(self) -> str:
        """The split in words."""
        if self.noise_variance == 0.0:
            return (
                f"The losses within each of the {self.domains} domains are equal, so there is no "
                "sampling noise; risks differ between domains by a standard deviation of "
                f"{self.spread_variance**0.5:.3g}."
            )
        median = ""
        if abs(self.noise_share - self.median_noise_share) >= UNEQUAL:
            median = f" ({self.median_noise_share:.0%} in the median domain)"
        return (
            f"Sampling noise explains {self.noise_share:.0%} of the variance of the "
            f"{self.domains} measured risks{median}; {self._spread_in_words()}."
        )

    @property
    def differs(self) -> bool:
        """Whether sampling noise alone is implausible, by Cochran's Q or by the likelihood."""
        return self.p_value < CLEAR or self.spread_low > 0.0

    def _spread_in_words(self) -> str:
        p = f"= {self.p_value:.2g}" if self.p_value >= 1e-99 else "< 1e-99"
        tested = f"Cochran's Q, p {p}"
        likely = f"likelihood range {self.spread_low:.3g} to {self.spread_high:.3g}"
        about = f"about {self.spread_variance**0.5:.3g}"
        if self.spread_variance == 0.0:
            about = f"up to {self.spread_high:.3g}"
        about = f"a standard deviation of {about} ({likely})"
        if self.differs:
            return f"true risks differ between domains by {about}: {tested}"
        if self.p_value < UNCLEAR:
            return f"true risks may differ between domains by {about}, but need not: {tested}"
        return (
            f"no difference between domains is visible ({tested}), but true risks may differ by a "
            f"standard deviation of up to {self.spread_high:.3g} ({likely})"
        )

    @property
    def warning(self) -> str | None:
        """What to be careful about, or None."""
        advice = (
            "Measure domains on more examples, or use the de-noised estimate "
            "(eqrm.evaluation.denoised_quantile). The domains with the highest measured risks need "
            "not be the worst domains."
        )
        if self.noise_share >= MUCH:
            where = ""
            if self.median_noise_share < MUCH:
                median = f"{self.median_noise_share:.0%} in the median domain"
                where = f", most of it in small domains ({median})"
            return (
                f"{self.noise_share:.0%} of the spread of the measured risks is sampling "
                f"noise{where}. {advice}"
            )
        if self.tail_noise_share >= MUCH:
            return (
                f"Beyond the {self.alpha:.4g}-quantile, {self.tail_noise_share:.0%} of the "
                "distance to the mean is sampling noise: the tail consists of domains with few "
                f"examples. {advice}"
            )
        return None


def noise_split(risks: Any, counts: Any, loss_variances: Any, alpha: LevelLike = 0.9) -> NoiseSplit:
    """Split the variance of measured risks into sampling noise and real spread.

    ``risks`` (m,) are means of ``counts`` (m,) losses each, whose variances (divisor n−1) are
    ``loss_variances`` (m,). A domain with one example has none (NaN) and gets that of the others.

    >>> rng = np.random.default_rng(0)
    >>> true = rng.normal(1.0, 0.1, 2000)
    >>> split = noise_split(true + rng.normal(0, 0.2, 2000), counts=25, loss_variances=1.0)
    >>> round(split.noise_share, 1), split.warning is None
    (0.8, False)
    """
    values, noise, several, mean, spread, _ = _measured(risks, counts, loss_variances)
    level = checked_alpha(alpha)
    own = per_domain(loss_variances, "loss_variances", values.size)
    numbers = per_domain(counts, "counts", values.size)
    average = float(noise.mean())
    low, high = _likely(values[several], noise[several], spread)
    q, p_value = cochran_q(values[several], noise[several])
    safe = np.where(noise > 0.0, spread + noise, 1.0)
    return NoiseSplit(
        domains=values.size,
        measured=int(several.sum()),
        alpha=level,
        mean=mean,
        total_variance=float(values.var(ddof=1)),
        noise_variance=average,
        loss_variance=common_variance(own, numbers),
        spread_variance=spread,
        spread_low=low**0.5,
        spread_high=high**0.5,
        noise_share=average / (spread + average) if average > 0.0 else 0.0,
        median_noise_share=float(np.median(noise / safe)),
        tail_noise_share=_tail_noise(values - mean, noise, spread, level),
        q=q,
        p_value=p_value,
    )


def denoised_risks(risks: Any, counts: Any, loss_variances: Any) -> Vector:
    """Risks whose distribution is that of the true risks: noise removed from their spread.

    Each risk is shrunk towards the mean by √(V/(V + v_i)), so that every risk has the variance V
    whatever its domain's size. The values are not the best estimates of single risks, which would
    be shrunk further; together they have the right spread. With few domains, noise and spread are
    hard to separate, so less is removed; where a domain has little noise it is left as it is.
    """
    values, noise, _, mean, variance, error = _measured(risks, counts, loss_variances)
    spread = variance + CAUTION * error
    share = noise / np.where(noise > 0.0, spread + noise, 1.0)
    begins, full = FADES_IN
    removed = (1.0 - np.sqrt(1.0 - share)) * np.clip((share - begins) / (full - begins), 0.0, 1.0)
    return np.asarray(values - removed * (values - mean))


def denoised_quantile(
    risks: Any, counts: Any, loss_variances: Any, alpha: LevelLike = 0.9
) -> float:
    """The α-quantile of the true risks, estimated from :func:`denoised_risks`.

    >>> rng = np.random.default_rng(0)
    >>> measured = rng.normal(1.0, 0.1, 2000) + rng.normal(0.0, 0.2, 2000)
    >>> truth = 1.0 + 1.2816 * 0.1
    >>> round(denoised_quantile(measured, counts=25, loss_variances=1.0) - truth, 2)
    0.01
    """
    level = checked_alpha(alpha)
    values = denoised_risks(risks, counts, loss_variances)
    return float(np.quantile(values, level, method="inverted_cdf"))


def cochran_q(risks: Vector, variances: Vector) -> tuple[float, float]:
    """Cochran's Q = Σ (R_i − μ)²/v_i, and the p-value of the test that all true risks are equal.

    If they are, Q is χ² with m − 1 degrees of freedom. Infinite where risks without noise differ.
    """
    if np.ptp(risks) == 0.0:
        return 0.0, 1.0
    if not variances.all():
        return np.inf, 0.0
    mean = np.average(risks, weights=1.0 / variances)
    q = float(((risks - mean) ** 2 / variances).sum())
    return q, float(chdtrc(risks.size - 1, q))


def sampling_variances(counts: Any, loss_variances: Any, domains: int) -> Vector | None:
    """The variance of the measured risk of each domain (m,) by sampling; None if it is not known.

    It is not known where every domain has one example.
    """
    numbers = checked_counts(counts, domains)
    known = numbers > 1
    variances = checked_variances(loss_variances, numbers.size, known)
    return pooled_variances(variances, numbers) / numbers if known.any() else None


def _measured(
    risks: Any, counts: Any, loss_variances: Any
) -> tuple[Vector, Vector, Any, float, float, float]:
    """Risks (m,), their sampling variances (m,), which have two examples (m,), and what they tell.

    That is the mean of the true risks, V, and the standard error of V.
    """
    values = without_rounding(checked_risks(risks))
    known = checked_counts(counts, values.size) > 1
    noise = sampling_variances(counts, loss_variances, values.size)
    if noise is None:
        raise DomainDataError(f"{ONE_EXAMPLE}: at least one domain needs two examples.")
    # Equal losses, as those of a constant, differ by rounding errors alone.
    noise = np.where(noise > (SAME * np.abs(values).max()) ** 2, noise, 0.0)
    several = known if known.sum() > 1 else np.ones_like(known)
    found = between_domains(values, noise, several / several.sum())
    return values, noise, several, *found


def _likely(risks: Vector, noise: Vector, spread: float) -> tuple[float, float]:
    """All V whose restricted likelihood is not far below the largest, at V = spread."""
    from scipy.optimize import brentq

    if not noise.any() and spread == 0.0:
        return 0.0, 0.0
    values = risks - risks.mean()
    unit = float(unit_of(np, values, noise))
    values, variances, spread = values / unit, noise / unit / unit, spread / unit / unit
    least = restricted_log_likelihood(spread, values, variances) + math.log(LIKELY)

    def above(log_variance: float) -> float:
        return restricted_log_likelihood(math.exp(log_variance), values, variances) - least

    # Precisions hardly change below a tiny share of the smallest noise: that is V = 0.
    tiny = math.log(1e-9 * max(float(variances.min()), 1e-9))
    start = max(math.log(spread), tiny) if spread > 0.0 else tiny
    end = start + 1.0
    while above(end) >= 0.0:
        end += 1.0
    low = 0.0 if above(tiny) >= 0.0 else math.exp(brentq(above, tiny, start))
    high = math.exp(brentq(above, start, end))
    return low * unit * unit, high * unit * unit


def _tail_noise(deviations: Vector, noise: Vector, spread: float, alpha: float) -> float:
    """1 − (distance of the tail from the mean expected on a new measurement)/(distance now).

    The tail is the quantile and what is beyond it. Of several risks equal to the quantile so much
    of each counts that the tail has as many domains as without ties.
    """
    quantile = np.quantile(deviations, alpha, method="inverted_cdf")
    beyond, equal = deviations > quantile, deviations == quantile
    number = deviations.size - math.ceil(alpha * deviations.size) + 1
    shares = beyond + equal * (max(1, number - beyond.sum()) / equal.sum())
    distances = shares * deviations
    if spread == 0.0 or distances.sum() <= 0.0:
        return 0.0 if spread > 0.0 or not noise.any() else 1.0
    expected = distances * (spread / (spread + noise))
    return float(1.0 - expected.sum() / distances.sum())
