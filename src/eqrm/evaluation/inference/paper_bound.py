"""The paper's own generalisation bound (Theorem D.1), and the domains that it takes.

For m independent domains, an estimate F̂_f of the CDF F_f of the risk of f, any ε > 0, and L
the Lipschitz constant of F̂ as a function of the empirical CDF, the proof gives

    P( sup_f F_f⁻¹(α − B − ε) − F̂_f⁻¹(α) > t ) ≤ δ + 8·𝒩·exp(−m·ε²/(32·L²)).

B is the bias sup (E F̂_f − F_f), and with probability 1 − δ every measured risk is within t of
its true risk. Where this departs from the text of appendix D:

- The exponent is m·ε²/(32·L²): DKW is used at ε/(8L), and 2·(ε/8L)² = ε²/(32L²). The text
  prints ε²/(64L).
- The proof bounds F − F̂ from above; the quantiles need F̂ − F. Its steps are symmetric, so
  both hold, each with its own bias.
- 𝒩 must count predictors: the fewest such that every f has one of them, g, with
  ‖F̂_f − F̂_g‖ ≤ ε/16 whatever the domains. The text covers the set of CDFs F̂_f instead; which
  member is near F̂_f then depends on the sample, and the union bound of the proof fails. With
  risks 0 or 1, the m+1 possible empirical CDFs are a cover, yet a class that can fit any m
  domains (risk 0 on those drawn, 1 elsewhere) has F̂⁻¹ = 0 and F⁻¹ = 1 with probability 1. For
  one fixed predictor 𝒩 = 1, for a choice among k predictors 𝒩 ≤ k.

One fixed predictor and the empirical CDF have L = 1, 𝒩 = 1 and B = 0. A KDE has L = 1 and
the bias of :func:`smoothing_bias`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqrm.checks import CONFIDENCE, NON_NEGATIVE, POSITIVE, POSITIVE_INTEGER, number
from eqrm.errors import SettingError
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.rounding import as_percent

LARGEST_CONSTANT = 1e100


@dataclass(frozen=True, kw_only=True)
class PaperBound(Finding):
    """What Theorem D.1 says of the α-quantile with m domains.

    The bound on F⁻¹(α) is the estimated quantile F̂⁻¹ at ``read_at`` = α + ε + B. If that exceeds
    1, the quantile does not exist and the bound is ``vacuous``. ``failure`` is the theorem's bound
    on the probability of error if one reads at level 1, the highest there is. ``domains_needed`` is
    the number from which the theorem says something, None if none is.
    """

    alpha: float
    confidence: float
    domains: int
    slack: float
    bias: float
    read_at: float
    failure: float
    vacuous: bool
    domains_needed: int | None
    covering_number: float
    lipschitz: float

    @property
    def sentence(self) -> str:
        """The statement, or that there is none."""
        opening = f"Theorem D.1 with {self.domains:,} domains"
        if not self.vacuous:
            return (
                f"{opening}: with {as_percent(self.confidence)} confidence, the "
                f"{self.alpha:.6g}-quantile of risk is at most the estimated "
                f"{self.read_at:.4g}-quantile."
            )
        if self.domains_needed is None:
            why = f"the bias {self.bias:.3g} alone exceeds the tail 1 − α = {1 - self.alpha:.3g}"
            return f"{opening} is vacuous for any number of domains: {why}."
        return (
            f"{opening} is vacuous: its bound on the probability of error is "
            f"{min(self.failure, 1.0):.3g}, where {1 - self.confidence:.3g} is required. It needs "
            f"at least {self.domains_needed:,} domains."
        )


def paper_bound(
    domains: int,
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    *,
    covering_number: float = 1.0,
    lipschitz: float = 1.0,
    bias: float = 0.0,
    within_miss: float = 0.0,
) -> PaperBound:
    """Theorem D.1 for m domains, with the constants that its proof gives.

    ε = L·√(32·log(8𝒩/(1 − confidence − δ))/m). ``covering_number`` 𝒩, ``lipschitz`` L and
    ``bias`` B are as at the top of this module; ``within_miss`` is δ, the probability kept for
    errors within domains, and 0 to speak of measured risks.

    >>> paper_bound(1000).vacuous, paper_bound(1000).domains_needed
    (True, 16241)
    >>> round(paper_bound(100_000).read_at, 4)
    0.9403
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    POSITIVE_INTEGER.check(domains, "domains")
    number(1).check(covering_number, "covering_number")
    number(1.0 / LARGEST_CONSTANT, LARGEST_CONSTANT).check(lipschitz, "lipschitz")
    NON_NEGATIVE.check(bias, "bias")
    miss = 1.0 - asked - within_miss
    if miss <= 1e-12:
        raise SettingError(
            f"within_miss must be below 1 − confidence = {1.0 - asked:.3g}, got {within_miss!r}."
        )
    scale = 32.0 * lipschitz**2
    rate = scale * (math.log(8.0 / miss) + math.log(covering_number))
    slack, room = math.sqrt(rate / domains), 1.0 - level - bias
    return PaperBound(
        alpha=level,
        confidence=asked,
        domains=domains,
        slack=slack,
        bias=bias,
        read_at=level + slack + bias,
        failure=_failure(domains, max(room, 0.0), covering_number, lipschitz) + within_miss,
        vacuous=slack > room,
        domains_needed=math.ceil(rate / room**2 * (1.0 - 1e-12)) if room > 1e-12 else None,
        covering_number=covering_number,
        lipschitz=lipschitz,
    )


def smoothing_bias(bandwidth: float, holder_constant: float, holder_exponent: float = 1.0) -> float:
    """The bias C·h^β of a KDE with a Gaussian kernel, C = (H/l!)·∫|x|^β φ(x) dx.

    For a true CDF whose l-th derivative is (β−l)-Hölder with constant H, l the largest integer
    below β (appendix D, "Kernel density estimator"). A kernel that is a density has no order
    above 2, so β may be at most 2.

    >>> round(smoothing_bias(0.1, holder_constant=1.0), 6)  # h·√(2/π)
    0.079788
    """
    POSITIVE.check(bandwidth, "bandwidth")
    NON_NEGATIVE.check(holder_constant, "holder_constant")
    beta = number(above=0, most=2).check(
        holder_exponent, "holder_exponent"
    )  # l! is 1 for l = 0 and l = 1
    moment = 2.0 ** (beta / 2.0) * math.gamma((beta + 1.0) / 2.0) / math.sqrt(math.pi)
    return float(holder_constant * moment * bandwidth**beta)


def _failure(domains: int, slack: float, covering_number: float, lipschitz: float) -> float:
    """8·𝒩·exp(−m·ε²/(32·L²)), which may exceed 1."""
    log = math.log(8.0) + math.log(covering_number) - domains * slack**2 / (32.0 * lipschitz**2)
    return math.exp(min(log, 700.0))
