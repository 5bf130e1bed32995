"""How much each kernel counts at a quantile or beyond it, of arrays and tensors."""

from __future__ import annotations

from eqrm.arrays import Values, detached, log, special, taken
from eqrm.distributions.kde.sums import NARROWEST
from eqrm.distributions.moments import Moments
from eqrm.distributions.normal_tails import hazard, log_density, log_sf
from eqrm.execution import namespace


def relative_kernels(centres: Values, log_weights: Values, root: Values) -> Values:
    """w_i ∝ p_i φ(t − y_i), from differences to the nearest centre.

    z_i² − z_j² = (z_i − z_j)(z_i + z_j) keeps the digits that squares of large z would lose.
    """
    logits, _ = _to_the_nearest(centres, log_weights, root)
    return special(logits).softmax(logits, axis=-1)


def relative_tails(centres: Values, log_weights: Values, root: Values) -> Values:
    """v_i ∝ p_i Φ(y_i − t), also where logarithms of Φ have no digits for the weights."""
    logits, nearest = _to_the_nearest(centres, log_weights, root)
    z = root - centres
    xp, beyond = namespace(z), z > 0.0
    above = log_sf(xp.where(beyond, 0.0, z)) - log_density(root - nearest)
    within = logits - log(hazard(xp.where(beyond, z, 0.0)))
    return special(z).softmax(xp.where(beyond, within, log_weights + above), axis=-1)


def _to_the_nearest(centres: Values, log_weights: Values, root: Values) -> tuple[Values, Values]:
    """log p_i φ(t − y_i), less log φ at the nearest centre, and that centre."""
    z = root - centres
    logits = log_weights - 0.5 * detached(z) ** 2
    nearest = taken(centres, namespace(z).argmax(logits, axis=-1, keepdims=True))
    difference = (nearest - centres) * (z + root - nearest)
    return log_weights - 0.5 * difference, nearest


def wide_enough(bandwidth: Values, found: Moments) -> Values:
    """h, raised to :data:`NARROWEST` of the spread where it is positive but narrower than that.

    Its gradient remains that of h.
    """
    xp = namespace(bandwidth)
    least = NARROWEST * xp.amax(abs(detached(found.centred)), axis=-1, keepdims=True)
    missing = xp.where(bandwidth > 0, least - bandwidth, 0.0)
    return bandwidth + detached(xp.clip(missing, 0.0, None))


def centres_of(found: Moments, bandwidth: Values) -> Values:
    """y_i = (R_i − R̄)/h; 0 where h is, and all risks are equal."""
    xp, positive = namespace(bandwidth), bandwidth > 0
    return xp.where(positive, found.centred / xp.where(positive, bandwidth, 1.0), 0.0)


def tail_mean(centred: Values, bandwidth: Values, shares: Values, rates: Values) -> Values:
    """Σ v_i (x_i + h·r_i), shape (..., 1)."""
    return (shares * (centred + bandwidth * rates)).sum(axis=-1, keepdims=True)
