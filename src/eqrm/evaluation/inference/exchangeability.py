"""Tests of the one assumption that certificates make: that domains are exchangeable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import DomainDataError
from eqrm.evaluation.inference.risk_checks import (
    Finding,
    Vector,
    checked_risks,
    midranks,
    without_rounding,
)

SIGNIFICANT = 0.05
PERMUTATIONS, MOST_PERMUTED = 4999, 2000
"""With more domains the normal limit of the rank statistics replaces permutations."""
_APPLIES = {
    "trend": "the one for the next domain that weighs recent domains more, which is not a "
    "certificate (eqrm evaluate --recent HALF_LIFE)",
    "serial": "the one for dependent domains (eqrm evaluate --dependence K where K is known, or "
    "--spells)",
}
_ALONG = {"time": "over time", "size": "with domain size"}
_ADVICE = {
    "time": "New domains may differ from these: compute certificates on the most recent domains, "
    "or a bound that weighs recent ones more, and watch new domains.",
    "size": "Certificates hold only for new domains of similar sizes: compute separate "
    "certificates for small and large domains.",
    "serial": "They do not look independent, so certificates may be too optimistic: use a bound "
    "for dependent domains or for domains in spells, and watch new domains.",
}


@dataclass(frozen=True, kw_only=True)
class ExchangeabilityTest(Finding):
    """A test of whether domains are exchangeable: drawn independently from one distribution.

    ``by`` is the order that was tested ("time", "size"), if one was. ``p_value`` is small where the
    risks would be surprising if they were. ``statistics`` holds what was computed, ``warning``
    describes what was found, or is None; ``rejected`` is then the statistic that speaks against it
    most ("trend" or "serial", of an order).
    """

    what: str
    rejected: str | None = None
    p_value: float
    statistics: dict[str, float]
    domains: int
    method: str
    warning: str | None = None
    by: str = ""

    @property
    def sentence(self) -> str:
        """The outcome as a sentence."""
        if self.warning is not None:
            return self.warning
        return (
            f"No evidence that risk {self.what} (p = {self.p_value:.2g}, {self.domains} domains). "
            "This is not proof that it does not."
        )

    @property
    def doubt(self) -> str:
        """What a plain certificate must say where a test of the order in time rejects, or nothing.

        A trend means that the distribution changes, similar neighbours that domains are dependent:
        each has a bound of its own.
        """
        if self.rejected is None or self.by != "time":
            return ""
        return (
            f"The order test rejects this (p = {self.p_value:.2g}): the bound that applies is "
            f"{_APPLIES[self.rejected]}."
        )


def order_test(risks: Any, order: Any = None, by: str = "time") -> ExchangeabilityTest:
    """Test whether risk changes along an order of the domains, such as time or size.

    ``order`` (m,) holds a number, a date or a sortable string for each domain; None is the given
    order. The trend is measured by Spearman's rank correlation. With ``by="time"``, neighbours are
    compared too, by the rank correlation of each domain with the next: seasons have no trend, but
    make domains dependent. The p-value is the smaller of the two, doubled; it comes from
    permutations of the risks, and beyond 2,000 domains from the normal limit.

    >>> drifting = order_test(np.arange(40) + np.random.default_rng(0).normal(0, 5, 40))
    >>> drifting.p_value < 0.01, "grows over time" in drifting.warning
    (True, True)
    """
    values = without_rounding(checked_risks(risks, at_least=5))
    ranks = _ranks(values)
    positions = _positions(order, values.size)
    arranged = ranks[np.argsort(positions, kind="stable")]
    # Ties in the order (equal sizes) must not become an order of their own: midranks.
    places = np.sort(positions)
    serial = by == "time" and np.unique(places).size == places.size
    found = _rank_statistics(arranged[None], places, serial)
    statistics = {name: float(value[0]) for name, value in found.items()}
    permuted = values.size <= MOST_PERMUTED
    if permuted:
        p_values = _permuted(arranged, places, statistics)
    else:  # under exchangeability both correlations are nearly N(0, 1/(m−1))
        root = math.sqrt((values.size - 1) / 2.0)
        p_values = {name: math.erfc(abs(value) * root) for name, value in statistics.items()}
    p_value = min(1.0, len(p_values) * min(p_values.values()))
    test = ExchangeabilityTest(
        by=by,
        what=f"changes {_ALONG.get(by, f'with {by}')}",
        p_value=p_value,
        statistics=statistics,
        domains=values.size,
        method=f"{PERMUTATIONS} permutations" if permuted else "normal limit",
        rejected=min(p_values, key=p_values.__getitem__) if p_value < SIGNIFICANT else None,
    )
    return test if test.rejected is None else replace(test, warning=order_warning([test]))


def _ranks(values: Vector) -> Vector:
    """Midranks, centred and scaled to unit variance; all 0 where there is one value only."""
    ranks = midranks(values)
    centred = ranks - ranks.mean()
    spread = float(np.sqrt((centred**2).mean()))
    return np.asarray(centred / spread if spread > 0.0 else centred)


def _positions(order: Any, domains: int) -> Vector:
    if order is None:
        return _ranks(np.arange(float(domains)))
    given = np.asarray(order)
    if given.shape != (domains,):
        raise DomainDataError(
            f"order must hold one value per domain: there are {domains} risks, got the shape "
            f"{given.shape}."
        )
    if given.dtype.kind in "OUS":
        given = given.astype(str)
    elif given.dtype.kind in "mM" and np.isnat(given).any():
        raise DomainDataError("order holds missing dates (NaT).")
    elif given.dtype.kind == "f" and not np.isfinite(given).all():
        raise DomainDataError("order must hold finite numbers, but some are NaN or infinite.")
    _, inverse = np.unique(given, return_inverse=True)
    return _ranks(inverse.ravel().astype(np.float64))


def _permuted(ranks: Vector, places: Vector, found: dict[str, float]) -> dict[str, float]:
    """P-values (1 + as extreme)/(1 + permutations), exact at any level."""
    extreme = dict.fromkeys(found, 1)
    orders = _orders(ranks.size)
    for some in np.array_split(orders, -(-orders.size // 1_000_000)):
        for name, values in _rank_statistics(ranks[some], places, "serial" in found).items():
            # Up to rounding, equal is as extreme.
            extreme[name] += int((np.abs(values) >= abs(found[name]) - 1e-12).sum())
    return {name: count / (PERMUTATIONS + 1) for name, count in extreme.items()}


@lru_cache(maxsize=1)
def _orders(size: int) -> NDArray[np.int16]:
    """Random orders (permutations, size), kept for the next test."""
    rows = np.tile(np.arange(size, dtype=np.int16), (PERMUTATIONS, 1))
    return np.random.default_rng(0).permuted(rows, axis=1)


def _rank_statistics(ranks: Any, places: Vector, serial: bool) -> dict[str, Any]:
    """Trend and serial correlation of each row of ranks."""
    size = ranks.shape[1]
    found = {"trend": ranks @ places / size}
    if serial:
        # The mean of the product of neighbours is −1/(m−1) under exchangeability.
        found["serial"] = (ranks[:, 1:] * ranks[:, :-1]).mean(axis=1) + 1.0 / (size - 1)
    return found


def order_warning(tests: Sequence[ExchangeabilityTest]) -> str:
    """What tests of one order found that reject alike, with the span of their numbers."""
    first, rejected = tests[0], tests[0].rejected or "trend"
    values = sorted(test.statistics[rejected] for test in tests)
    if rejected == "trend":
        along = _ALONG.get(first.by, f"with {first.by}")
        seen = f"Risk {'grows' if values[0] > 0.0 else 'falls'} {along}"
        advice = _ADVICE.get(first.by, "New domains may differ from these.")
    else:
        seen = f"Consecutive domains have {'similar' if values[0] > 0.0 else 'alternating'} risks"
        advice = _ADVICE["serial"]
    low, high = f"{values[0]:+.2f}", f"{values[-1]:+.2f}"
    span = low if low == high else f"{low} to {high}"
    p = f"p {'=' if len(tests) == 1 else 'at most'} {max(test.p_value for test in tests):.2g}"
    return f"{seen} (rank correlation {span}, {p}). {advice}"
