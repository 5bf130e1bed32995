"""Has the distribution of the risk changed? A test that may be looked at after every domain.

A conformal test martingale (Vovk, Gammerman & Shafer 2005): the rank of each new risk among all
risks before it, ties broken at random, gives p-values that are independent and uniform if domains
are exchangeable; an :class:`Evidence` bets against that. Risks are counted in bins, whose edges
come from earlier domains, so that memory does not grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.data.hashed_draws import hashed, uniform
from eqrm.evaluation.inference.in_time.evidence import Evidence, log_rank_factors
from eqrm.evaluation.inference.risk_checks import Vector, checked_risks

MOST_EDGES = 20
FEWEST_REFERENCES = 20
CHUNK = 16_384
_SEED = 20_230_611


class RiskDrift:
    """Evidence that the distribution of the risk is not that of earlier domains any more.

    ``reference`` are risks of earlier domains in the order of time: the first half fixes the edges
    of the bins, the second half is the beginning of the sequence (less k domains between them for
    k-dependent ones). With ``dependence`` k there are k+1 interleaved tests.

    >>> rng = np.random.default_rng(0)
    >>> drift = RiskDrift(rng.normal(size=200))
    >>> same, higher = rng.normal(size=200), rng.normal(1, 1, 200)
    >>> bool(drift.update_many(same).max() < 20), bool(drift.update_many(higher).max() > 20)
    (True, True)
    """

    def __init__(self, reference: Any, dependence: int = 0) -> None:
        risks = checked_risks(reference, "Reference risks", at_least=FEWEST_REFERENCES)
        half = risks.size // 2
        edges = np.unique(np.quantile(risks[:half], np.linspace(0, 1, min(half, MOST_EDGES))))
        self._begin(edges, dependence + 1)
        later = risks[half + dependence :]
        # They end where new domains begin, so that every (k+1)-th domain is k+1 places apart.
        parts = (np.arange(later.size) - later.size) % self._parts
        for part, place in zip(parts.tolist(), self._bins(later).tolist(), strict=True):
            self._counts[part, place] += 1

    def _begin(self, edges: Vector, parts: int) -> None:
        self._edges, self._parts, self.domains = edges, parts, 0
        self._counts = np.zeros((parts, edges.size + 1), dtype=np.int64)
        self._processes = [Evidence(bets=6) for _ in range(parts)]

    @property
    def largest(self) -> float:
        """The largest evidence so far: at least 1/δ with a probability of at most δ."""
        return max(process.largest for process in self._processes) / self._parts

    @property
    def current(self) -> float:
        """The evidence now."""
        return max(process.current for process in self._processes) / self._parts

    def update_many(self, risks: Vector) -> Vector:
        """Take new risks (n,) in the order of time; returns the evidence after each (n,)."""
        pieces = [self._extend(risks[i : i + CHUNK]) for i in range(0, len(risks), CHUNK)]
        return np.concatenate(pieces) if pieces else np.empty(0)

    def _extend(self, risks: Vector) -> Vector:
        numbers = self.domains + np.arange(risks.size)
        draws, bins = uniform(hashed(_SEED, numbers)), self._bins(risks)
        each = np.empty((self._parts, risks.size))
        for part, process in enumerate(self._processes):
            mine = np.arange((part - self.domains) % self._parts, risks.size, self._parts)
            factors = log_rank_factors(self._p_values(part, bins[mine], draws[mine]))
            each[part] = carried(process.current, process.extend(factors), mine, risks.size)
        self.domains += risks.size
        return np.asarray(each.max(axis=0) / self._parts)

    def _p_values(self, part: int, bins: Any, draws: Vector) -> Vector:
        """(how many were higher + U · how many were equal, itself included) / how many in all."""
        seen = np.zeros((bins.size + 1, self._counts.shape[1]), dtype=np.int64)
        seen[0] = self._counts[part]
        seen[np.arange(1, bins.size + 1), bins] = 1
        seen = np.cumsum(seen, axis=0)
        self._counts[part] = seen[-1]
        at_or_above = np.cumsum(seen[1:, ::-1], axis=1)[:, ::-1]
        rows = np.arange(bins.size)
        equal = seen[1:][rows, bins]
        higher = at_or_above[rows, bins] - equal
        return np.asarray((higher + draws * equal) / at_or_above[:, 0])

    def _bins(self, risks: Vector) -> Any:
        return np.searchsorted(self._edges, risks, side="left")

    def to_dict(self) -> dict[str, Any]:
        """The state, ready for JSON."""
        return {
            "edges": self._edges.tolist(),
            "domains": self.domains,
            "counts": self._counts.tolist(),
            "processes": [process.to_dict() for process in self._processes],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> RiskDrift:
        """The test that :meth:`to_dict` described."""
        made = cls.__new__(cls)
        made._begin(np.array(state["edges"], dtype=np.float64), len(state["processes"]))
        made.domains = int(state["domains"])
        made._counts[:] = state["counts"]
        made._processes = [Evidence.from_dict(each) for each in state["processes"]]
        if np.isnan(state["edges"]).any():
            raise ValueError("edges that are not numbers")
        return made


def carried(before: float, values: Vector, places: Any, size: int) -> Vector:
    """Values that are known at some places (sorted), each kept until the next (size,).

    >>> carried(1.0, np.array([2.0, 3.0]), np.array([1, 3]), 5)
    array([1., 2., 2., 3., 3.])
    """
    lasting = np.diff(np.concatenate([[0], places, [size]]))
    return np.concatenate([[before], values]).repeat(lasting)
