"""Per-domain first and second moments: all that a linear model with squared error needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eqrm.errors import DataFileError, DomainDataError
from eqrm.files.archive import read_archive, write_archive
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

FORMAT = "eqrm.moments 2"
TENSORS = ("counts", "mean", "covariance", "remainder")


@dataclass(frozen=True, eq=False)
class DomainMoments:
    """Mean and covariance of (x_1 … x_d, y) in each of E domains.

    ``names`` are the domains, ``counts`` (E,) their rows (inf for population moments),
    ``features`` the d columns of x, ``mean`` (E, d+1) and ``covariance`` (E, d+1, d+1), divided
    by n, with the target last. All tensors are float64. ``remainder`` (E, d+1) is what rounding
    left of the mean, so that merging loses no digits.

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
    remainder: Tensor | None = field(default_factory=lambda: None)

    def __post_init__(self) -> None:
        columns = (*self.features, self.target)
        check_shapes(self.names, columns, {name: getattr(self, name) for name in TENSORS})
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

    def merge(self, other: DomainMoments) -> DomainMoments:
        """The moments of both together; domains are matched by name, new ones come last.

        >>> a = DomainMoments.from_arrays([[0.0], [1.0]], [0.0, 1.0], ["a", "b"])
        >>> b = DomainMoments.from_arrays([[4.0], [1.0]], [2.0, 1.0], ["a", "c"])
        >>> both = a.merge(b)
        >>> both.names, both.counts.tolist(), both.mean[0].tolist()
        (('a', 'b', 'c'), [2.0, 1.0, 1.0], [2.0, 1.0])
        """
        if not isinstance(other, DomainMoments):
            raise DomainDataError(f"Only DomainMoments can be merged, got {type(other).__name__}.")
        if (self.features, self.target) != (other.features, other.target):
            raise DomainDataError(
                "Moments of different columns cannot be merged: "
                f"{', '.join(self.features)} -> {self.target} and "
                f"{', '.join(other.features)} -> {other.target}."
            )
        parts = {name: self._part(e) for e, name in enumerate(self.names)}
        for e, name in enumerate(other.names):
            part = other._part(e)
            if name not in parts:
                parts[name] = part
            elif parts[name].count == torch.inf or part.count == torch.inf:
                raise DomainDataError(
                    f"Domain {name!r} is in both and has population moments, to which rows "
                    "cannot be added."
                )
            else:
                parts[name].add(part)
        return DomainMoments(
            names=tuple(parts),
            features=self.features,
            target=self.target,
            **_stack(list(parts.values())),
        )

    def _part(self, e: int) -> RunningMoments:
        mean = self.mean[e].numpy().copy()
        offset = mean * 0.0 if self.remainder is None else self.remainder[e].numpy().copy()
        count = float(self.counts[e])
        factor = 1.0 if count == torch.inf else count
        return RunningMoments(mean, count, offset, self.covariance[e].numpy() * factor)

    def subset(self, domains: Iterable[object]) -> DomainMoments:
        """The moments of some domains, in the order asked for.

        >>> three = DomainMoments.from_arrays([[1.0], [2.0], [3.0]], [0.0, 1.0, 2.0], [1, 2, 3])
        >>> three.subset([3, 1]).names
        ('3', '1')
        """
        if isinstance(domains, (str, int)):
            raise DomainDataError(f"subset takes a list of domains, got {domains!r}.")
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
            remainder=None if self.remainder is None else self.remainder[chosen],
        )

    @property
    def second(self) -> Tensor:
        """E[zzᵀ] of z = (1, x, y) in each domain, (E, d+2, d+2): uncentred.

        >>> DomainMoments.from_arrays([[2.0]], [3.0], ["a"]).second[0, 0]
        tensor([1., 2., 3.], dtype=torch.float64)
        """
        ones = torch.ones_like(self.mean[:, :1])
        first = torch.cat([ones, self.mean], dim=1)
        second = first.unsqueeze(-1) * first.unsqueeze(-2)
        second[:, 1:, 1:] += self.covariance
        return second

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
        try:
            return spread + (v @ self.mean.T + b) ** 2
        except RuntimeError:
            raise DomainDataError(
                "There must be one intercept per predictor, got coefficients of the shape "
                f"{tuple(beta.shape)} and intercepts of the shape {tuple(b.shape[:-1])}."
            ) from None

    def problems(self, fit_intercept: bool = True) -> list[str]:
        """What makes coefficients undetermined, in plain sentences; empty when nothing does.

        Constant columns and linear dependence between features, over all domains together.

        >>> X = [[1.0, 2.0], [3.0, 6.0], [4.0, 8.0]]
        >>> DomainMoments.from_arrays(X, [1.0, 2.0, 0.0], [0, 0, 1]).problems()
        ["Features 'x1' and 'x2' are linearly dependent: leave one of them out."]
        """
        if fit_intercept:
            return undetermined(self.mean, self.covariance, self.features, self.target)
        second = self.second[:, 1:-1, 1:-1].mean(dim=0)
        return undetermined_without_intercept(second, self.features)

    def save(self, path: str | Path) -> None:
        """Write to a safetensors file, which holds numbers and names and no code."""
        names = {"names": self.names, "features": self.features, "target": self.target}
        tensors = {name: getattr(self, name) for name in TENSORS}
        kept = {name: value for name, value in tensors.items() if value is not None}
        write_archive(Path(path), FORMAT, names, kept)

    @classmethod
    def load(cls, path: str | Path) -> DomainMoments:
        """Read what :meth:`save` wrote; a damaged or different file is refused."""
        archive = read_archive(Path(path), FORMAT, "a file of moments")
        try:
            names, features = tuple(archive.content["names"]), tuple(archive.content["features"])
            tensors = {name: value.to(torch.float64) for name, value in archive.tensors.items()}
            return cls(names=names, features=features, target=archive.content["target"], **tensors)
        except (KeyError, TypeError):
            raise DataFileError(f"{path} is damaged: a part of the moments is missing.") from None


def _stack(parts: Sequence[RunningMoments]) -> dict[str, Tensor]:
    """Counts, mean, covariance and remainder of all domains."""
    pivot = torch.stack([torch.from_numpy(part.pivot) for part in parts])
    offset = torch.stack([torch.from_numpy(part.offset) for part in parts])
    counts = torch.tensor([part.count for part in parts], dtype=torch.float64)
    scatter = torch.stack([torch.from_numpy(part.scatter) for part in parts])
    covariance = scatter / torch.where(counts == torch.inf, 1.0, counts)[:, None, None]
    mean = pivot + offset
    # What is lost in pivot + offset, exactly (Knuth's TwoSum).
    virtual = mean - pivot
    remainder = (pivot - (mean - virtual)) + (offset - virtual)
    return {
        "counts": counts,
        "mean": mean,
        "covariance": (covariance + covariance.mT) / 2,
        "remainder": remainder,
    }
