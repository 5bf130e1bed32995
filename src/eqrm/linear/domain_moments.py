"""Per-domain first and second moments: all that a linear model with squared error needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqrm.data.tables.frames import in_memory
from eqrm.domains import name_order
from eqrm.errors import DomainDataError
from eqrm.execution import is_tensor, namespace
from eqrm.linear.running_moments import Floats, MomentAccumulator, default_names
from eqrm.text import counted, did_you_mean

DEPENDENT = 1e-12
"""Eigenvalues of a correlation matrix below this, times its size, are zero."""


@dataclass(frozen=True, eq=False)
class DomainMoments:
    """Mean and covariance of (x_1 … x_d, y) in each of E domains.

    ``names`` are the domains, ``counts`` (E,) their rows (inf for population moments),
    ``features`` the d columns of x, ``mean`` (E, d+1) and ``covariance`` (E, d+1, d+1), divided
    by n, with the target last. All arrays are float64; what is given as a tensor becomes one.

    With v = (β, −1) the risk of β and intercept b in domain e is R_e = vᵀC_e v + (vᵀμ_e + b)².

    >>> X, y = [[0.0], [2.0], [5.0]], [1.0, 3.0, 4.0]
    >>> moments = DomainMoments.from_arrays(X, y, ["Oslo", "Oslo", "Rome"])
    >>> moments
    DomainMoments(2 domains, 1 feature: x1 -> y, 3 rows)
    >>> moments.risks([1.0], 0.5)
    array([0.25, 2.25])
    """

    names: tuple[str, ...]
    counts: Floats
    features: tuple[str, ...]
    mean: Floats
    covariance: Floats
    target: str = "y"

    def __post_init__(self) -> None:
        for name in ("counts", "mean", "covariance"):
            object.__setattr__(self, name, np.asarray(in_memory(getattr(self, name)), np.float64))

    def __repr__(self) -> str:
        rows = float(self.counts.sum())
        size = "population" if rows == np.inf else counted(int(rows), "row")
        features = ", ".join(self.features[:4]) + (", …" if len(self.features) > 4 else "")
        return (
            f"DomainMoments({counted(len(self), 'domain')}, "
            f"{counted(self.num_features, 'feature')}: {features} -> {self.target}, {size})"
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def num_features(self) -> int:
        """d, the number of features."""
        return len(self.features)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        domains: Any,
        features: Sequence[str] | None = None,
        target: str = "y",
    ) -> DomainMoments:
        """Moments of X (n, d) and y (n,) by domain (n,): arrays, tensors, lists or frames.

        ``features`` are the columns of a frame to use, or the names of those of an array: all
        columns, and x1, x2, … unless given.
        """
        return cls.from_batches([(X, y, domains)], features, target)

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[tuple[Any, Any, Any]],
        features: Sequence[str] | None = None,
        target: str = "y",
    ) -> DomainMoments:
        """Moments of a stream of (X, y, domains), in one pass and constant memory.

        ``domains`` is a name per row, or one name for the whole batch. A domain may come again
        in a later batch.

        >>> batches = [([[0.0]], [1.0], "a"), ([[4.0], [2.0]], [0.0, 3.0], ["b", "a"])]
        >>> DomainMoments.from_batches(batches).mean
        array([[1., 2.],
               [4., 0.]])
        """
        accumulator = MomentAccumulator(features, target)
        for X, y, domains in batches:
            accumulator.add(X, y, domains)
        return cls.of_accumulator(accumulator, sorted(accumulator.parts, key=name_order))

    @classmethod
    def population(
        cls,
        mean: Any,
        covariance: Any,
        names: Sequence[object] | None = None,
        features: Sequence[str] | None = None,
        target: str = "y",
    ) -> DomainMoments:
        """Exact moments: mean (E, d+1) and covariance (E, d+1, d+1), target last.

        >>> DomainMoments.population([[0.0, 1.0]], [[[2.0, 1.0], [1.0, 3.0]]]).risks([0.5])
        array([3.5])
        """
        mean = np.asarray(in_memory(mean), np.float64)
        covariance = np.asarray(in_memory(covariance), np.float64)
        width = mean.shape[-1]
        if mean.ndim != 2 or width < 2 or covariance.shape != (len(mean), width, width):
            raise DomainDataError(
                "mean and covariance must have the shapes (domains, features + 1) and (domains, "
                f"features + 1, features + 1), got {mean.shape} and {covariance.shape}."
            )
        called = tuple(str(name) for name in (range(len(mean)) if names is None else names))
        _refuse_impossible(called, mean, covariance)
        return cls(
            names=called,
            counts=np.full(len(mean), np.inf),
            features=tuple(map(str, default_names(width - 1) if features is None else features)),
            mean=mean,
            covariance=covariance,
            target=target,
        )

    @classmethod
    def of_accumulator(cls, accumulator: MomentAccumulator, names: Sequence[str]) -> DomainMoments:
        """The moments an accumulator has gathered of these domains."""
        if not names:
            raise DomainDataError("At least one row is needed, got none.")
        parts = [accumulator.parts[name] for name in names]
        covariance = np.stack([part.scatter / part.count for part in parts])
        return cls(
            names=tuple(names),
            counts=np.array([part.count for part in parts]),
            features=accumulator.features or (),
            mean=np.stack([part.pivot + part.offset for part in parts]),
            covariance=(covariance + covariance.swapaxes(1, 2)) / 2,
            target=accumulator.target,
        )

    def subset(self, domains: Iterable[object]) -> DomainMoments:
        """The moments of some domains, in the order asked for."""
        position = {name: e for e, name in enumerate(self.names)}
        names = tuple(map(str, domains))
        for name in names:
            if name not in position:
                raise DomainDataError(f"Unknown domain {name!r}. {did_you_mean(name, self.names)}")
        chosen = [position[name] for name in names]
        return replace(
            self,
            names=names,
            counts=self.counts[chosen],
            mean=self.mean[chosen],
            covariance=self.covariance[chosen],
        )

    def risks(self, coefficients: Any, intercept: Any = 0.0) -> Any:
        """The risk E(β·x + b − y)² in every domain: an array, or a tensor with its gradient.

        ``coefficients`` (d,) and a number give (E,); leading dimensions are kept:
        (…, d) and (…) give (…, E).
        """
        xp = namespace(coefficients if is_tensor(coefficients) else intercept)
        read = getattr(xp, "as_tensor", np.asarray)
        given = coefficients, intercept, self.mean, self.covariance
        beta, b, mean, covariance = (read(each, dtype=xp.float64) for each in given)
        if beta.ndim == 0 or beta.shape[-1] != self.num_features:
            raise DomainDataError(
                f"coefficients must have {self.num_features} entries, one per feature, got the "
                f"shape {tuple(beta.shape)}."
            )
        v = xp.concatenate([beta, -xp.ones_like(beta[..., :1])], axis=-1)
        spread = (v[..., None, None, :] @ covariance)[..., 0, :] * v[..., None, :]
        return spread.sum(axis=-1) + (v @ mean.T + b[..., None]) ** 2

    def problems(self, fit_intercept: bool = True) -> list[str]:
        """What makes coefficients undetermined, in plain sentences; empty when nothing does.

        Constant columns and linear dependence between features, over all domains together, each
        with the same weight.
        """
        away, floor = self.mean, np.zeros(self.num_features + 1)
        if fit_intercept:
            away = self.mean - self.mean.mean(axis=0)
            # A constant column far from 0 is left with the variance of its rounding.
            floor = (8 * np.finfo(np.float64).eps * np.abs(self.mean).max(axis=0)) ** 2
        pooled = self.covariance.mean(axis=0) + away.T @ away / len(away)
        constant = (pooled.diagonal() <= floor).tolist()
        what = "constant, like the intercept" if fit_intercept else "0 everywhere"
        found = [
            f"Feature {name!r} is {what}: leave it out."
            for name, flat in zip(self.features, constant, strict=False)
            if flat
        ]
        if constant[-1]:
            found.append(f"The target {self.target!r} is {what}: there is nothing to predict.")
        moving = [j for j in range(self.num_features) if not constant[j]]
        scale = pooled.diagonal()[moving] ** -0.5
        values, vectors = np.linalg.eigh(pooled[np.ix_(moving, moving)] * np.outer(scale, scale))
        null = np.abs(vectors[:, values < DEPENDENT * len(moving)]).sum(axis=1) > 1e-6
        tied = [repr(self.features[j]) for j, one in zip(moving, null.tolist(), strict=True) if one]
        if tied:
            found.append(f"Features {', '.join(tied)} are linearly dependent: leave some out.")
        return found


def _refuse_impossible(names: tuple[str, ...], mean: Floats, covariance: Floats) -> None:
    """Refuse moments of no distribution: not finite, or with a covariance that is none."""
    scale = np.sqrt(np.abs(covariance.diagonal(axis1=1, axis2=2)))
    unit = np.where(scale > 0.0, scale, 1.0)
    both = unit[:, :, None] * unit[:, None, :]
    correlation, slack = covariance / both, 1e-15 * scale.max(axis=1)[:, None, None] ** 2
    good = np.isfinite(mean).all(axis=1) & np.isfinite(covariance).all(axis=(1, 2))
    with np.errstate(invalid="ignore"):  # of infinite ones
        apart = np.abs(covariance - covariance.swapaxes(1, 2))
    good &= (apart <= 1e-8 * both + slack).all(axis=(1, 2))
    usable = np.where(good[:, None, None], correlation, np.eye(mean.shape[1]))
    good &= np.linalg.eigvalsh(usable)[:, 0] > -1e-8
    if not good.all():
        name = names[int(np.argmin(good))]
        raise DomainDataError(
            f"The moments of domain {name!r} are impossible: they must be finite, and the "
            "covariance symmetric and positive semidefinite."
        )
