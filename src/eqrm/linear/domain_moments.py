"""Per-domain first and second moments: all that a linear model with squared error needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.linear.running_moments import (
    MomentAccumulator,
    RunningMoments,
    check_shapes,
    check_values,
    default_names,
    float64,
    undetermined,
    undetermined_without_intercept,
)
from eqrm.text import counted, did_you_mean


@dataclass(frozen=True, eq=False)
class DomainMoments:
    """Mean and covariance of (x_1 … x_d, y) in each of E domains.

    ``names`` are the domains, ``counts`` (E,) their rows (inf for population moments),
    ``features`` the d columns of x, ``mean`` (E, d+1) and ``covariance`` (E, d+1, d+1), divided
    by n, with the target last. All tensors are float64.

    With v = (β, −1) the risk of β and intercept b in domain e is R_e = vᵀC_e v + (vᵀμ_e + b)².

    >>> X, y = [[0.0], [2.0], [5.0]], [1.0, 3.0, 4.0]
    >>> moments = DomainMoments.from_arrays(X, y, ["Oslo", "Oslo", "Rome"])
    >>> moments
    DomainMoments(2 domains, 1 feature: x1 -> y, 3 rows)
    >>> moments.risks([1.0], 0.5)
    tensor([0.2500, 2.2500], dtype=torch.float64)
    """

    names: tuple[str, ...]
    counts: Tensor
    features: tuple[str, ...]
    mean: Tensor
    covariance: Tensor
    target: str = "y"

    def __post_init__(self) -> None:
        columns = (*self.features, self.target)
        check_shapes(self.names, columns, self.counts, self.mean, self.covariance)
        check_values(self.names, columns, self.counts, self.mean, self.covariance)

    def __repr__(self) -> str:
        rows = float(self.counts.sum())
        size = "population" if rows == torch.inf else counted(int(rows), "row")
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
        target: str | None = None,
    ) -> DomainMoments:
        """Moments of X (n, d) and y (n,) by domain (n,): arrays, tensors, lists or frames.

        ``features`` are the names of the columns: those of a frame, or x1, x2, … unless given.
        ``target`` is "y" unless given, or "target" where a feature is called "y".

        >>> DomainMoments.from_arrays([[1.0], [2.0]], [1.0, 2.0], [7, 7]).names
        ('7',)
        """
        return cls.from_batches([(X, y, domains)], features, target)

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[tuple[Any, Any, Any]],
        features: Sequence[str] | None = None,
        target: str | None = None,
    ) -> DomainMoments:
        """Moments of a stream of (X, y, domains), in one pass and constant memory.

        ``domains`` is a name per row, or one name for the whole batch. A domain may come again
        in a later batch. Where X is a frame, its columns must have the same names in every
        batch, in the same order.

        >>> batches = [([[0.0]], [1.0], "a"), ([[4.0], [2.0]], [0.0, 3.0], ["b", "a"])]
        >>> DomainMoments.from_batches(batches).mean
        tensor([[1., 2.],
                [4., 0.]], dtype=torch.float64)
        """
        accumulator = MomentAccumulator(features, target)
        for batch in batches:
            if not isinstance(batch, (tuple, list)) or len(batch) != 3:
                raise DomainDataError(
                    "Every batch must be (X, y, domains). For one table, use from_arrays."
                )
            accumulator.add(*batch)
        return cls.of_accumulator(accumulator)

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
        tensor([3.5000], dtype=torch.float64)
        """
        mean, covariance = float64(mean, "mean"), float64(covariance, "covariance")
        if mean.ndim != 2 or mean.shape[1] < 2:
            raise DomainDataError(
                f"mean must have the shape (domains, features + 1), got {tuple(mean.shape)}."
            )
        if features is None:
            features = default_names(mean.shape[1] - 1)
        return cls(
            names=tuple(str(name) for name in (range(len(mean)) if names is None else names)),
            counts=torch.full((len(mean),), torch.inf, dtype=torch.float64),
            features=tuple(str(name) for name in features),
            mean=mean,
            covariance=covariance,
            target=target,
        )

    @classmethod
    def of_accumulator(
        cls, accumulator: MomentAccumulator, names: Sequence[str] | None = None
    ) -> DomainMoments:
        """The moments an accumulator has gathered, its domains sorted or in the order given."""
        parts = dict(accumulator.ordered())
        names = tuple(parts) if names is None else tuple(names)
        return cls(
            names=names,
            features=accumulator.features or (),
            target=accumulator.target,
            **_stack([parts[name] for name in names]),
        )

    def subset(self, domains: Iterable[object]) -> DomainMoments:
        """The moments of some domains, in the order asked for.

        >>> three = DomainMoments.from_arrays([[1.0], [2.0], [3.0]], [0.0, 1.0, 2.0], [1, 2, 3])
        >>> three.subset([3, 1]).names
        ('3', '1')
        """
        position = {name: e for e, name in enumerate(self.names)}
        chosen = []
        for name in map(str, domains):
            if name not in position:
                raise DomainDataError(f"Unknown domain {name!r}. {did_you_mean(name, self.names)}")
            chosen.append(position[name])
        return DomainMoments(
            names=tuple(self.names[e] for e in chosen),
            counts=self.counts[chosen],
            features=self.features,
            mean=self.mean[chosen],
            covariance=self.covariance[chosen],
            target=self.target,
        )

    def risks(self, coefficients: Any, intercept: Any = 0.0) -> Tensor:
        """The risk E(β·x + b − y)² in every domain, differentiable.

        ``coefficients`` (d,) and a number give (E,); leading dimensions are kept:
        (…, d) and (…) give (…, E).
        """
        beta = float64(coefficients, "coefficients")
        if beta.ndim == 0 or beta.shape[-1] != self.num_features:
            raise DomainDataError(
                f"coefficients must have {self.num_features} entries, one per feature, got the "
                f"shape {tuple(beta.shape)}."
            )
        b = float64(intercept, "intercept").unsqueeze(-1)
        v = torch.cat([beta, beta.new_full((*beta.shape[:-1], 1), -1.0)], dim=-1)
        spread = torch.einsum("...i,eij,...j->...e", v, self.covariance, v)
        return spread + (v @ self.mean.T + b) ** 2

    def problems(self, fit_intercept: bool = True) -> list[str]:
        """What makes coefficients undetermined, in plain sentences; empty when nothing does.

        Constant columns and linear dependence between features, over all domains together.

        >>> X = [[1.0, 2.0], [3.0, 6.0], [4.0, 8.0]]
        >>> DomainMoments.from_arrays(X, [1.0, 2.0, 0.0], [0, 0, 1]).problems()
        ["Features 'x1' and 'x2' are linearly dependent: leave one of them out."]
        """
        if fit_intercept:
            return undetermined(self.mean, self.covariance, self.features, self.target)
        mean = self.mean[:, :-1]
        second = mean.unsqueeze(-1) * mean.unsqueeze(-2) + self.covariance[:, :-1, :-1]
        return undetermined_without_intercept(second.mean(dim=0), self.features)


def _stack(parts: Sequence[RunningMoments]) -> dict[str, Tensor]:
    """Counts, means and covariances of all domains."""
    counts = torch.tensor([part.count for part in parts], dtype=torch.float64)
    covariance = torch.stack([torch.from_numpy(part.scatter / part.count) for part in parts])
    return {
        "counts": counts,
        "mean": torch.stack([torch.from_numpy(part.pivot + part.offset) for part in parts]),
        "covariance": (covariance + covariance.mT) / 2,
    }
