"""What the linear-SEM tasks must give, and where that comes from.

Fully observed tasks are solved by hand. All coefficients of X are a, all of Z are b, and with
s = a + b the risk at scale e is five times

    homoskedastic:    2e²(s − 1)² + (b − 1)² + b²e²
    heteroskedastic:  2e²(s − 1)² + (b − 1)²e² + b².

Invariant risk over e needs the factor of e² to vanish: (a, b) = (1, 0), the causal predictor, in
the first and (0, 1), the anti-causal one, in the second. Least squares has s = 1 and
b = 1/(1 + mean e²) or mean e²/(1 + mean e²). IRM's condition E[f(f − Y)] = 0 at every e has the
causal predictor as its solution of least risk in both.

For partially observed tasks there is no closed form; the claims are those of appendix G.1.2,
which refers to the experiments of the papers on IRM and VREx and prints no number itself.
"""

from __future__ import annotations

from eqrm.reproductions.linear_sem.settings import SCALES

CLOSED_FORM = "closed form in `expected.py`"
APPENDIX = "appendix G.1.2: invariant risks need homoskedasticity, invariant functions do not"
ROTATION = "the risks of a predictor do not depend on the axes its features are written in"


def limit(method: str, heteroskedastic: bool) -> tuple[float, float]:
    """(a, b) of a method with population moments, for a fully observed task.

    >>> limit("EQRM", heteroskedastic=True)
    (0.0, 1.0)
    """
    if method == "ERM":
        size = sum(scale**2 for scale in SCALES) / len(SCALES)
        effect = size / (1 + size) if heteroskedastic else 1 / (1 + size)
        return 1 - effect, effect
    if heteroskedastic and method in ("VREx", "EQRM"):
        return 0.0, 1.0
    return 1.0, 0.0
