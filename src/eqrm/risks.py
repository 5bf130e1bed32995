"""From losses per example to one risk per domain.

:class:`DomainRisks` is of arrays or tensors; of tensors it is differentiable, and objectives are
computed from it. :class:`MeasuredRisks` holds the same as plain numbers, for evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eqrm.arrays import as_array, detached, refuse_masked
from eqrm.checks import POSITIVE_INTEGER
from eqrm.domains import Name, domain_names, name_order, named_domains, number_domains
from eqrm.errors import DomainDataError
from eqrm.execution import can_look, is_tensor, namespace
from eqrm.text import shortened

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DomainRisks", "MeasuredRisks", "domain_risks"]

Domains: TypeAlias = "Tensor | np.ndarray[Any, Any] | Sequence[Any]"
Numbers = NDArray[np.float64]
FEWEST_DOMAINS = 2


@dataclass(frozen=True, eq=False)
class DomainRisks:
    """One risk per domain: the mean loss of a predictor there.

    ``values`` (m,) are differentiable in the losses; ``counts`` (m,) are the examples of each
    domain; ``names`` are what the domains were called (0 … m−1 for integer ids). Absent
    domains have count 0, value 0 and weight 0.
    """

    values: Any
    counts: Any
    names: Sequence[Any]
    all_present: bool
    losses: Any
    ids: Any

    @property
    def weights(self) -> Any:
        """1/k for each of the k domains present, 0 for the rest; None if all are present."""
        if self.all_present:
            return None
        xp = namespace(self.counts)
        present = xp.where(self.counts > 0, xp.ones_like(self.counts, dtype=xp.float64), 0.0)
        return present / present.sum()

    @property
    def sampling_variances(self) -> Any:
        """The sampling variance s²/n of each risk, s² the variance of its losses.

        Differentiable in the losses. A domain with one example has no s² of its own, and gets the
        mean s² of the others.
        """
        variances, several = self.loss_variances, self.counts > 1
        xp = namespace(variances)
        pooled = detached(xp.where(several, variances, 0.0).sum()) / several.sum().clip(min=1)
        return xp.where(several, variances, pooled) / self.counts.clip(min=1)

    @property
    def loss_variances(self) -> Any:
        """The variance s² of the losses of each domain (divisor n − 1); NaN where n < 2."""
        return variances_of(self.squared_deviations(detached(self.values)), self.counts)

    def squared_deviations(self, centres: Any) -> Any:
        """Σ (loss − centre of its domain)² per domain, differentiable in the losses."""
        if is_tensor(centres):
            deviations = (self.losses.to(centres.dtype) - centres[self.ids]) ** 2
            return centres.new_zeros(centres.shape).scatter_add(0, self.ids, deviations)
        with np.errstate(over="ignore", invalid="ignore"):  # torch does not warn either
            deviations = (self.losses - centres[self.ids]) ** 2
        return np.bincount(self.ids, deviations, len(centres))

    def measured(self) -> MeasuredRisks:
        """The same as numbers: without a gradient, and without absent domains."""
        counts, *found = map(as_array, (self.counts, self.values, self.loss_variances))
        present = np.flatnonzero(counts).tolist()
        return MeasuredRisks.of(
            [self.names[i] for i in present], *(v[present] for v in (counts, *found))
        )


def variances_of(squares: Any, counts: Any) -> Any:
    """s² per domain from its sum of squared deviations (m,) and its examples (m,)."""
    xp = namespace(squares)
    return xp.where(counts > 1, squares / (counts - 1).clip(min=1), xp.nan)


@dataclass(frozen=True, eq=False)
class MeasuredRisks:
    """Per domain: its name, the number of examples, the mean of their losses, their variance.

    Four arrays of one length m, in the order of the names (numbers before strings). ``risks`` are
    the means; ``variances`` are the unbiased variances of the losses (divisor n − 1), NaN for
    a domain with one example.

    >>> risks = MeasuredRisks.of(["b", "a"], [4, 9], [0.5, 0.2], [0.04, 0.09])
    >>> risks.domains, risks.risks.tolist(), risks.standard_errors.tolist()
    (('a', 'b'), [0.2, 0.5], [0.1, 0.1])
    """

    domains: tuple[Name, ...]
    counts: NDArray[np.int64]
    risks: Numbers
    variances: Numbers

    @classmethod
    def of(
        cls, domains: Sequence[Any], counts: Any, risks: Any, variances: Any, *, part: bool = False
    ) -> MeasuredRisks:
        """Put the domains in order; refuse repeated domains, and fewer than two of them.

        A ``part`` of the examples, to be merged with others, may have one domain.
        """
        names = domain_names(domains)
        order = np.array(sorted(range(len(names)), key=lambda i: name_order(names[i])), dtype=int)
        ordered = tuple(names[i] for i in order)
        repeated = [a for a, b in pairwise(ordered) if a == b]
        if repeated and len(set(domains)) == len(domains):
            raise DomainDataError(
                f"{named_domains(repeated).capitalize()} appears both as a number and as a string. "
                "Use numbers for all domains, or strings for all."
            )
        if repeated:
            raise DomainDataError(
                f"There must be one row per domain, got several rows for {named_domains(repeated)}."
            )
        if not len(names) == np.size(counts) == np.size(risks) == np.size(variances):
            raise DomainDataError("Names, counts, risks and variances differ in number.")
        if len(ordered) < (1 if part else FEWEST_DOMAINS):
            found = f"only {named_domains(ordered)}" if ordered else "none"
            raise DomainDataError(
                f"At least two domains are needed to see how risk varies, got {found}. "
                "Give the data of more domains, or use another column as the domain."
            )
        return cls(
            domains=ordered,
            counts=np.asarray(counts, dtype=np.int64)[order],
            risks=np.asarray(risks, dtype=np.float64)[order],
            variances=_finite_variances(variances, risks, names)[order],
        )

    @classmethod
    def merged(
        cls, domains: Sequence[Any], counts: Any, risks: Any, variances: Any, *, part: bool = False
    ) -> MeasuredRisks:
        """Merge several rows of one domain, such as parts of its examples, into one."""
        names = domain_names(domains)
        place = {name: i for i, name in enumerate(dict.fromkeys(names))}
        if len(place) == len(names):
            return cls.of(names, counts, risks, variances, part=part)
        n, means, s2 = (np.asarray(v, dtype=np.float64) for v in (counts, risks, variances))
        ids = np.array([place[name] for name in names])
        n, means, squares = merged_moments(ids, n, means, np.where(n > 1, s2, 0.0) * (n - 1.0))
        return cls.of(list(place), n, means, variances_of(squares, n), part=part)

    def __len__(self) -> int:
        return len(self.domains)

    @property
    def standard_errors(self) -> Numbers:
        """The sampling error s/√n of each risk; NaN for a domain with one example."""
        return np.sqrt(self.variances / self.counts)

    def only(self, domains: Sequence[Name]) -> MeasuredRisks:
        """The same measurements of these domains alone."""
        position = {name: i for i, name in enumerate(self.domains)}
        rows = [position[name] for name in domains]
        return MeasuredRisks.of(domains, self.counts[rows], self.risks[rows], self.variances[rows])

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain lists, for JSON; the variance of a domain with one example is None."""
        return {
            "domains": list(self.domains),
            "counts": self.counts.tolist(),
            "risks": self.risks.tolist(),
            "variances": [None if np.isnan(v) else v for v in self.variances.tolist()],
        }

    @classmethod
    def from_dict(
        cls, content: Mapping[str, Sequence[Any]], *, part: bool = False
    ) -> MeasuredRisks:
        """Read what :meth:`to_dict` gave."""
        variances = [np.nan if v is None else v for v in content["variances"]]
        domains, counts, risks = (content[key] for key in ("domains", "counts", "risks"))
        for each in counts:
            if not POSITIVE_INTEGER.holds(each) or each >= 2**63:
                raise DomainDataError(
                    f"The number of examples of a domain must be {POSITIVE_INTEGER.words}, got "
                    f"{shortened(repr(each), 40)}."
                )
        return cls.of(domains, counts, risks, variances, part=part)


def _finite_variances(variances: Any, risks: Any, names: Sequence[Name]) -> Numbers:
    values, means = (np.asarray(given, dtype=np.float64) for given in (variances, risks))
    with np.errstate(over="ignore"):  # the variance of the risks is a sum of such squares
        squares = np.square(means) * len(names)
    overflows = np.isinf(values) | (np.isinf(squares) & np.isfinite(means))
    if overflows.any():
        large = [names[int(i)] for i in np.flatnonzero(overflows)]
        raise DomainDataError(
            f"The losses of {named_domains(large)} are so large that their variance overflows. "
            "Rescale or bound the losses."
        )
    return values


def merged_moments(
    ids: NDArray[np.int64], counts: Numbers, means: Numbers, squares: Numbers
) -> Numbers:
    """Merge parts into groups: examples, means and sums of squared deviations (3, m).

    Part i has ``counts`` examples and belongs to group ``ids`` from 0 to m−1. By the formulas of
    Chan, Golub and LeVeque, relative to each group's first part, so that losses far from 0 keep
    their digits: mean = μ + Σ nᵢ(meanᵢ − μ)/n and squares = Σ squaresᵢ + Σ nᵢ(meanᵢ − mean)².
    """
    size = int(ids.max(initial=-1)) + 1
    first = np.zeros(size, dtype=np.int64)
    first[ids[::-1]] = np.arange(ids.size)[::-1]  # of repeated places, the last written stays
    total = np.bincount(ids, counts, size)
    mean = means[first]
    mean = mean + np.bincount(ids, counts * (means - mean[ids]), size) / np.maximum(total, 1.0)
    deviations = squares + counts * (means - mean[ids]) ** 2
    return np.stack([total, mean, np.bincount(ids, deviations, size)])


def domain_risks(losses: Any, domains: Domains, num_domains: int | None = None) -> DomainRisks:
    """Mean loss per domain, R_e = (1/n_e) Σ losses of domain e (Algorithm 1, line 3).

    ``losses`` (n,) is one loss per example and ``domains`` (n,) says where each comes from:
    integers, strings, or a pandas categorical. Arrays and lists give arrays of float64. Sums of
    tensors are taken by one ``scatter_add``, in float64, and returned in float32 at least.

    With ``num_domains``, ``domains`` must be integer ids below it. Then nothing is looked up
    and the device is never waited for, as ``torch.compile``, CUDA graphs and DDP need.

    >>> risks = domain_risks([1.0, 3.0, 5.0], ["a", "a", "b"])
    >>> risks.values, risks.counts, risks.names
    (array([2., 5.]), array([2, 1]), ('a', 'b'))
    >>> import torch
    >>> domain_risks(torch.tensor([1.0, 3.0]), torch.tensor([2, 2]), num_domains=3).values
    tensor([0., 0., 2.])
    """
    losses = checked_losses(losses)
    if num_domains is None:
        if len(losses) == 0:
            raise DomainDataError("losses is empty: at least one example is needed.")
        ids, names = _numbered(domains, losses)
    else:
        ids, names = _given_ids(domains, num_domains, losses), range(num_domains)
    means = _means_of_tensors if is_tensor(losses) else _means_of_arrays
    values, counts = means(losses, ids, len(names))
    return DomainRisks(values, counts, names, num_domains is None, losses, ids)


def _means_of_arrays(losses: Numbers, ids: Any, size: int) -> tuple[Numbers, Any]:
    counts = np.bincount(ids, minlength=size)
    return np.bincount(ids, losses, size) / counts.clip(min=1), counts


def _means_of_tensors(losses: Tensor, ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Means and counts (m,) by one scatter: row 0 gathers losses, row 1 ones.

    In float64, because a float32 sum of many losses drifts, and cannot count beyond 2^24.
    """
    torch = namespace(losses)
    stacked = torch.stack([losses.to(torch.float64), torch.ones_like(losses, dtype=torch.float64)])
    totals = stacked.new_zeros((2, size)).scatter_add(1, ids.expand(2, -1), stacked)
    counts = totals[1].detach()
    values = (totals[0] / counts.clamp(min=1)).to(torch.promote_types(losses.dtype, torch.float32))
    return values, counts.to(torch.int64)


def checked_batch(losses: Tensor, domains: Domains, num_domains: int) -> tuple[Tensor, Tensor]:
    """Losses (n,) and ids (n,) on their device, refused where their shapes do not fit."""
    losses = checked_losses(losses)
    return losses, _given_ids(domains, num_domains, losses)


def checked_losses(given: Any) -> Any:
    """A tensor as it is, or an array in float64, refused unless it is a vector of losses."""
    refuse_masked(given)
    try:
        losses: Any = given if is_tensor(given) else np.asarray(given)
        if not is_tensor(given) and losses.dtype.kind not in "biufc":
            raise TypeError
    except (TypeError, ValueError, RuntimeError):
        kind = type(given).__name__
        raise DomainDataError(
            f"losses must be an array, a tensor or a list of numbers, got {kind}."
        ) from None
    if losses.ndim != 1:
        hint = ' Use reduction="none" in the loss.' if losses.ndim == 0 else ""
        raise DomainDataError(
            f"losses must be a vector with one loss per example, got the shape "
            f"{tuple(losses.shape)}.{hint}"
        )
    if "float" not in str(losses.dtype):
        raise DomainDataError(f"losses must be floating-point numbers, got {losses.dtype}.")
    return losses if is_tensor(losses) else losses.astype(np.float64, copy=False)


def _given_ids(domains: Domains, num_domains: int, losses: Any) -> Any:
    if not POSITIVE_INTEGER.holds(num_domains):
        raise DomainDataError(f"num_domains must be {POSITIVE_INTEGER.words}, got {num_domains!r}.")
    ids: Any = domains if is_tensor(domains) else np.asarray(domains)
    if "int" not in str(ids.dtype):
        raise DomainDataError(
            f"With num_domains, domains must be integer ids from 0, got {ids.dtype}."
        )
    if ids.shape != losses.shape:
        raise DomainDataError(
            f"domains must hold one domain per loss: losses have the shape {tuple(losses.shape)}, "
            f"domains {tuple(ids.shape)}."
        )
    ids = _beside(losses, ids)
    if len(ids) > 0 and (not is_tensor(losses) or can_look(losses)):
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= num_domains:
            raise DomainDataError(
                f"With num_domains={num_domains}, domain ids must be from 0 to {num_domains - 1}, "
                f"got {low if low < 0 else high}."
            )
    return ids


def _numbered(domains: Domains, losses: Any) -> tuple[Any, Sequence[Name]]:
    """Ids beside the losses, and names; integers on a GPU are numbered there."""
    if is_tensor(losses) and is_tensor(domains):
        torch = namespace(losses)
        if torch.compiler.is_compiling() or domains.is_cuda:
            if domains.shape != losses.shape or domains.dtype.is_floating_point:
                raise DomainDataError(
                    f"domains must hold one integer per loss {tuple(losses.shape)}, got "
                    f"{domains.dtype} of shape {tuple(domains.shape)}."
                )
            found, inverse = torch.unique(domains.to(losses.device), return_inverse=True)
            return inverse, tuple(domain_names(found.tolist()))
    numbered = number_domains(domains, rows=len(losses))
    return _beside(losses, numbered.ids), numbered.names


def _beside(losses: Any, ids: Any) -> Any:
    """Ids in int64 where the losses are: a tensor on their device, or an array."""
    if is_tensor(losses):
        torch = namespace(losses)
        return torch.as_tensor(ids).to(device=losses.device, dtype=torch.int64)
    return as_array(ids).astype(np.int64, copy=False)
