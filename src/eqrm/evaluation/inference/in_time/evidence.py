"""Evidence against a hypothesis that may be looked at after every domain.

A betting e-process (Ville 1939; Shafer 2021; Waudby-Smith & Ramdas 2024): a gambler bets against
the hypothesis at odds that it calls fair, so that under it the wealth E_t has E_0 = 1, does not
grow in expectation, and reaches 1/δ at any time with a probability of at most δ.

A break may come late, when early bets would have lost everything. So the money is split: half is
bet from the first domain on, and the domain j brings the next 1/log₂(j) − 1/log₂(j+1) of the other
half into play (Shiryaev and Roberts' statistic, with weights that add up to one).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from eqrm.data.hashed_draws import hashed, uniform
from eqrm.evaluation.inference.risk_checks import Vector, checked_risks

_LOG_HALF = math.log(0.5)


class Evidence:
    """The wealth of a gambler who splits it over several bets and starting times.

    ``bets`` is how many bets there are, with equal shares. State and memory do not grow:
    ``steps``, for each bet the logarithm of what one unit has become since the beginning, and of
    the sum over starting times j of w_j divided by what one unit had become by then.
    """

    def __init__(self, bets: int) -> None:
        self.steps = 0
        self.largest = 1.0
        self._log_grown = np.zeros(bets)
        self._log_started = np.full(bets, -np.inf)

    @property
    def current(self) -> float:
        """The wealth now."""
        waiting = _waiting(self.steps) if self.steps else 1.0
        return float(_in_play(self._log_grown, self._log_started) + waiting)

    def extend(self, log_factors: Vector) -> Vector:
        """Bet once per row of ``log_factors`` (n, bets); returns the wealth after each (n,).

        Every factor must have an expectation of at most 1 under the hypothesis, given the past.
        """
        if len(log_factors) == 0:
            return np.empty(0)
        last = self.steps + len(log_factors)
        numbers = np.arange(self.steps + 1, last + 1)
        log_weights = _log_weights(numbers)
        # A row per bet, so that what is added up lies side by side in memory.
        grown, started = np.empty((2, self._log_grown.size, len(log_factors) + 1))
        grown[:, 0], grown[:, 1:] = self._log_grown, log_factors.T
        np.add.accumulate(grown, axis=1, out=grown)
        started[:, 0], started[:, 1:] = self._log_started, log_weights - grown[:, :-1]
        np.logaddexp.accumulate(started, axis=1, out=started)
        wealth = np.asarray(_in_play(grown[:, 1:], started[:, 1:]) + _waiting(numbers))
        self.steps = last
        self._log_grown, self._log_started = grown[:, -1].copy(), started[:, -1].copy()
        self.largest = max(self.largest, float(wealth.max()))
        return wealth

    def to_dict(self) -> dict[str, Any]:
        """The state, ready for JSON."""
        started = [value if math.isfinite(value) else None for value in self._log_started.tolist()]
        return {
            "steps": self.steps,
            "largest": self.largest,
            "log_grown": self._log_grown.tolist(),
            "log_started": started,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Evidence:
        """The evidence that :meth:`to_dict` described."""
        made = cls(len(state["log_grown"]))
        made.steps, made.largest = int(state["steps"]), float(state["largest"])
        made._log_grown = np.array(state["log_grown"], dtype=np.float64)
        started = [-math.inf if value is None else value for value in state["log_started"]]
        made._log_started = np.array(started, dtype=np.float64)
        if np.isnan([made.largest, *made._log_grown, *made._log_started]).any():
            raise ValueError("evidence that is not a number")
        return made


def _in_play(log_grown: Vector, log_started: Vector) -> Vector:
    """The mean over bets (bets, ...); what is too large for float64 becomes 1e300."""
    return np.asarray(np.exp(np.minimum(log_grown + log_started, 690.0)).mean(axis=0))


def _waiting(numbers: Any) -> Any:
    """What is not in play yet after so many domains, one or more."""
    return 0.5 * math.log(2.0) / np.log1p(numbers)


def _log_weights(numbers: Any) -> Vector:
    """log w_j: w_1 = ½, and w_j = ½·(1/log₂(j) − 1/log₂(j+1)) for j ≥ 2."""
    later = np.maximum(numbers, 2).astype(np.float64)
    differences = math.log(2.0) * np.log1p(1.0 / later) / (np.log(later) * np.log1p(later))
    return np.asarray(np.where(numbers == 1, _LOG_HALF, _LOG_HALF + np.log(differences)))


def log_miss_factors(missed: Any, share: float) -> Vector:
    """Bets against "at most this share of domains miss" (n, 5), for ``missed`` (n,) booleans.

    Each is the likelihood ratio of a higher share θ: θ/share for a miss, (1−θ)/(1−share) otherwise,
    for odds of missing that are 1.5, 2.5, 5, 15 and 100 times as high.
    """
    odds = np.array([1.5, 2.5, 5.0, 15.0, 100.0])
    larger = odds * share / (1.0 - share + odds * share)
    won, lost = np.log(larger / share), np.log((1.0 - larger) / (1.0 - share))
    return np.stack([lost, won], axis=1).take(np.asarray(missed, dtype=bool), axis=1).T


def log_rank_factors(p_values: Vector) -> Vector:
    """Bets against "p-values are independent and uniform" (n, 6), for ``p_values`` (n,).

    1 ± λ(1−2p) gains if risks rise or fall, 1 ± λ(12(p−½)²−1)/2 if they spread or contract.
    """
    rising = 1.0 - 2.0 * p_values
    spreading = (12.0 * (p_values - 0.5) ** 2 - 1.0) / 2.0
    bets = [0.5 * rising, 0.95 * rising, -0.5 * rising, -0.95 * rising]
    return np.log1p(np.column_stack([*bets, 0.9 * spreading, -0.9 * spreading]))


def miss_rate_interval(
    misses: int, domains: int, share: float, delta: float
) -> tuple[float, float]:
    """Limits of the probability of a miss that hold after every domain at once, with 1 − δ.

    Robbins' (1970) mixture: p is excluded once B(a+s, b+f)/B(a, b) / (p^s (1−p)^f) ≥ 1/δ, s misses
    and f others, with a Beta(a, b) law of mean ``share`` and a = 1.
    """
    if domains == 0:
        return 0.0, 1.0
    held = domains - misses
    a, b = 1.0, (1.0 - share) / share
    mixture = float(betaln(a + misses, b + held) - betaln(a, b)) + math.log(delta)

    def excluded(p: float) -> bool:
        return bool(mixture - xlogy(misses, p) - xlog1py(held, -p) >= 0.0)

    def limit(outside: float) -> float:
        """The last p that is excluded between an end and what was seen; the end if none is."""
        inside = misses / domains
        for _ in range(60 if excluded(outside) else 0):
            middle = 0.5 * (outside + inside)
            outside, inside = (middle, inside) if excluded(middle) else (outside, middle)
        return outside

    return limit(0.0), limit(1.0)


MOST_EDGES = 20
FEWEST_REFERENCES = 20
CHUNK = 16_384
_SEED = 20_230_611


class RiskDrift:
    """Evidence that the distribution of the risk is not that of earlier domains any more.

    A conformal test martingale (Vovk, Gammerman & Shafer 2005): the rank of each new risk among all
    risks before it, ties broken at random, gives p-values that are independent and uniform if
    domains are exchangeable; an :class:`Evidence` bets against that. Risks are counted in bins,
    whose edges come from earlier domains, so that memory does not grow.

    ``reference`` are risks of earlier domains in the order of time: the first half fixes the edges
    of the bins, the second half is the beginning of the sequence (less k domains between them for
    k-dependent ones). With ``dependence`` k there are k+1 interleaved tests.
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
    """Values that are known at some places (sorted), each kept until the next (size,)."""
    lasting = np.diff(np.concatenate([[0], places, [size]]))
    return np.concatenate([[before], values]).repeat(lasting)
