"""Scores and targets of rows by domain, and the correction of such scores.

Sums over millions of rows are made block by block, in threads, so that memory holds little besides
the scores themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from eqrm.execution import thread_count
from eqrm.linear.solving.risk_functions import Array

BLOCK = 32_768
"""Rows that are computed at a time: what is made of them stays in the processor's cache."""
CLIP = 1e-7
"""How far probabilities are kept from 0 and 1, where logits would be infinite: models that compute
in float32 cannot tell 1 − 6e-8 from 1."""


@dataclass(frozen=True)
class Correction:
    """Corrected scores are ``scale``·scores + ``shift``: a number, or one per class (K,)."""

    shift: float | tuple[float, ...] = 0.0
    scale: float = 1.0

    def __call__(self, scores: NDArray[Any]) -> Array:
        """Correct scores: logits of two classes or numbers (n,), or logits of K classes (n, K)."""
        found: Array = np.multiply(self.scale, scores, dtype=np.float64)
        found += np.asarray(self.shift)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        shift = self.shift if isinstance(self.shift, float) else list(self.shift)
        return {"shift": shift, "scale": self.scale}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Correction:
        """The reverse of :meth:`to_dict`; ``ValueError`` for numbers that are not finite."""
        shift, scale = content["shift"], float(content["scale"])
        shifts = list(map(float, shift)) if isinstance(shift, list) else [float(shift)]
        if not np.isfinite([*shifts, scale]).all():
            raise ValueError("its correction has a number that is not finite")
        return cls(tuple(shifts) if isinstance(shift, list) else shifts[0], scale)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Scores and targets of rows, sorted by domain.

    ``scores`` are (n,), or (n, K) for K > 2 classes; ``target`` holds 0 … K−1, or numbers where
    ``classes`` is 0; ``ends`` (m+1,) are where the domains begin and end, and ``shares`` (n,) sum
    to 1 in each of them; None where every row of a domain counts the same. ``workers`` is how many
    threads may share the rows.
    """

    scores: NDArray[Any]
    target: NDArray[Any]
    classes: int
    ends: NDArray[np.int64]
    shares: Array | None = None
    workers: int = field(default_factory=thread_count)

    @classmethod
    def of(
        cls,
        scores: NDArray[Any],
        target: NDArray[Any],
        classes: int,
        domains: NDArray[np.integer[Any]],
        sample_weight: Array | None = None,
    ) -> ScoredRows:
        """From rows in any order; ``domains`` (n,) are numbers from 0, none left out."""
        counts = np.bincount(domains)
        ends = np.concatenate([[0], np.cumsum(counts)])
        if (domains[1:] < domains[:-1]).any():
            order = np.argsort(domains, kind="stable")
            scores, target, domains = scores[order], target[order], domains[order]
            sample_weight = None if sample_weight is None else sample_weight[order]
        shares = None
        if sample_weight is not None:
            shares = sample_weight / np.repeat(np.bincount(domains, sample_weight), counts)
        return cls(scores, target, classes, ends, shares)

    @property
    def domains(self) -> int:
        """m."""
        return len(self.ends) - 1

    def between(self, first: int, last: int) -> ScoredRows:
        """The domains from ``first`` to before ``last``, without a copy of their rows."""
        ends = self.ends[first : last + 1]
        rows = slice(int(ends[0]), int(ends[-1]))
        shares = None if self.shares is None else self.shares[rows]
        return replace(
            self,
            scores=self.scores[rows],
            target=self.target[rows],
            ends=ends - ends[0],
            shares=shares,
        )

    def some(self, most: int) -> ScoredRows:
        """At most this many rows of each domain, evenly spread over those that have a weight."""
        counted = (
            np.arange(len(self.target)) if self.shares is None else np.flatnonzero(self.shares)
        )
        starts = np.searchsorted(counted, self.ends)
        sizes = np.diff(starts)
        kept = np.minimum(sizes, most)
        ends = np.concatenate([[0], np.cumsum(kept)])
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], kept)
        spread = within * np.repeat(sizes, kept) // np.repeat(kept, kept)
        rows = counted[np.repeat(starts[:-1], kept) + spread]
        found = replace(self, scores=self.scores[rows], target=self.target[rows], ends=ends)
        if self.shares is None:
            return found
        shares = self.shares[rows]
        shares = shares / np.repeat(np.add.reduceat(shares, ends[:-1]), kept)
        return replace(found, shares=shares)

    def means(self, of_rows: Callable[[slice], Array]) -> Array:
        """The mean over each domain (w, m) of w values per row.

        ``of_rows`` computes the values (w, k) of k rows that follow each other.
        """
        rows = len(self.target)
        workers = max(1, min(self.workers, rows // BLOCK))
        cuts = (np.linspace(0, rows, workers + 1) // BLOCK * BLOCK).astype(int)
        cuts[-1] = rows
        parts = [slice(a, b) for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]
        if workers == 1:
            total = self._sums(parts[0], of_rows)
        else:
            with ThreadPoolExecutor(workers) as pool:  # numpy releases the GIL in long loops
                total = np.sum(list(pool.map(lambda part: self._sums(part, of_rows), parts)), 0)
        return total if self.shares is not None else total / np.diff(self.ends)

    def _sums(self, part: slice, of_rows: Callable[[slice], Array]) -> Array:
        """What some of the rows add to each domain, (w, m)."""
        total = None
        for start in range(part.start, part.stop, BLOCK):
            stop = min(start + BLOCK, part.stop)
            values = of_rows(slice(start, stop))
            if self.shares is not None:
                values = values * self.shares[start:stop]
            if total is None:
                total = np.zeros((len(values), self.domains))
            first = int(np.searchsorted(self.ends, start, side="right")) - 1
            last = int(np.searchsorted(self.ends, stop))
            begins = np.maximum(self.ends[first:last], start) - start
            total[:, first:last] += np.add.reduceat(values, begins, axis=1)
        if total is None:
            raise ValueError("there are no rows")
        return total

    def risks(self, correction: Correction) -> Array:
        """The risk of each domain (m,) with corrected scores."""

        def losses(rows: slice) -> Array:
            scores, target = correction(self.scores[rows]), self.target[rows]
            found = log_losses(scores, target) if self.classes else (scores - target) ** 2
            return found[None]

        return np.asarray(self.means(losses)[0])

    def constant(self) -> Correction:
        """The correction that ignores the scores, with the smallest mean risk over domains.

        It predicts the share of each class, or the mean of the target, with every domain counted
        once. A class that has no rows keeps the share of half a row.
        """
        if not self.classes:
            return Correction(float(self.means(lambda rows: self.target[None, rows]).mean()), 0.0)
        labels = np.arange(self.classes)[:, None]
        shares = self.means(lambda rows: (self.target[rows] == labels).astype(np.float64))
        logits = np.log(np.maximum(shares.mean(axis=1), 0.5 / len(self.target)))
        if self.classes == 2:
            return Correction(float(logits[1] - logits[0]), 0.0)
        return Correction(tuple((logits - logits.mean()).tolist()), 0.0)


def log_losses(logits: Array, labels: NDArray[Any]) -> Array:
    """−log p of the label (n,), 0 … K−1, for logits of the second of two classes, or (n, K)."""
    if logits.ndim == 1:
        found: Array = np.logaddexp(0.0, np.where(labels == 1, -1.0, 1.0) * logits)
    else:
        found = -np.take_along_axis(log_softmax(logits, axis=1), labels[:, None], axis=1)[:, 0]
    return found


def logits_of(probabilities: NDArray[Any], clip: float = CLIP) -> Array:
    """Logits (n,) of the second of two classes, from (n,), (n, 1) or (n, 2); else logarithms."""
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim == 2 and values.shape[1] > 2:
        return np.log(np.maximum(values, clip))
    of_both = values.ndim == 2 and values.shape[1] == 2
    second = values[:, 1] if of_both else values.ravel()
    first = values[:, 0] if of_both else 1.0 - second
    found: Array = np.log(second.clip(clip, 1.0 - clip)) - np.log(first.clip(clip, 1.0 - clip))
    return found


def probabilities_of(logits: Array, clip: float = 0.0) -> Array:
    """The reverse: (n,) of the second of two classes, or (n, K); kept ``clip`` from 0 and 1."""
    found = expit(logits) if logits.ndim == 1 else softmax(logits, axis=1)
    if clip:
        found = found.clip(clip, 1.0 - clip)
        if logits.ndim == 2:
            found = found / found.sum(axis=1, keepdims=True)
    return np.asarray(found, dtype=np.float64)
