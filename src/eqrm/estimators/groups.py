"""From scikit-learn's ``groups`` to domains, and from losses per row to one risk per domain.

Everything here is numpy: estimators and gradient boosting call it in every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.errors import DomainDataError, EqrmWarning
from eqrm.objectives.base import RiskObjective
from eqrm.risks import is_missing, number_domains

Numbers = NDArray[np.float64]
Name = int | str
SHOWN_ROWS = 5
ONE_DOMAIN = "all rows"
"""What the only domain is called where no groups were given."""


class OneDomainWarning(EqrmWarning):
    """A level was asked for without groups: all rows are one domain, which makes it ERM."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The domains of n rows: ``ids`` (n,) from 0, ``names`` and ``counts`` (m,) of the domains.

    >>> groups = as_groups(["b", "a", "b"], rows=3)
    >>> groups.ids, groups.names, groups.counts
    (array([1, 0, 1]), ('a', 'b'), array([1, 2]))
    """

    ids: NDArray[np.int64]
    names: tuple[Name, ...]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, values: NDArray[Any]) -> Numbers:
        """Σ of the values (n,) in each domain (m,), in float64.

        >>> as_groups([7, 7, 9], rows=3).sums(np.array([1.0, 2.0, 5.0]))
        array([3., 5.])
        """
        totals = np.bincount(self.ids, weights=values, minlength=len(self))
        return totals.astype(np.float64, copy=False)

    def means(self, losses: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Numbers:
        """The risk of each domain (m,): the (weighted) mean of its losses (n,).

        >>> groups = as_groups(["a", "a", "b"], rows=3)
        >>> groups.means(np.array([1.0, 3.0, 5.0]))
        array([2., 5.])
        >>> groups.means(np.array([1.0, 3.0, 5.0]), sample_weight=np.array([3.0, 1.0, 9.0]))
        array([1.5, 5. ])
        """
        if sample_weight is None:
            return self.sums(losses) / self.counts
        return self.sums(losses * sample_weight) / self.sums(sample_weight)

    def row_weights(self, per_domain: Numbers, sample_weight: Any = None) -> Numbers:
        """d(objective)/d(loss of each row) (n,) from d(objective)/d(risk of each domain) (m,).

        A row's share of its domain's risk is 1/n_e, or w_i/Σw with weights.

        >>> as_groups(["a", "a", "b"], rows=3).row_weights(np.array([0.5, 0.5]))
        array([0.25, 0.25, 0.5 ])
        """
        if sample_weight is None:
            return (per_domain / self.counts)[self.ids]
        shares: Numbers = (per_domain / self.sums(sample_weight))[self.ids] * sample_weight
        return shares

    def only(self, rows: NDArray[np.bool_]) -> Groups:
        """The domains of some of the rows; a domain without any of them is left out.

        >>> as_groups(["a", "b", "b"], rows=3).only(np.array([False, True, True])).names
        ('b',)
        """
        ids = self.ids[rows]
        counts = np.bincount(ids, minlength=len(self))
        present = counts > 0
        places = np.cumsum(present) - 1
        names = tuple(n for n, kept in zip(self.names, present.tolist(), strict=True) if kept)
        return Groups(places[ids], names, counts[present])


def as_groups(groups: Any, rows: int, *, level_asked: bool = True, stacklevel: int = 2) -> Groups:
    """The domains of ``rows`` rows, numbered in the order of their sorted names.

    ``groups`` is a list, an array, a tensor, or a column of pandas, polars or Arrow: integers,
    texts, dates, or a categorical. ``None`` makes all rows one domain, which is announced by a
    :class:`OneDomainWarning` where a level was asked for. Missing values are refused.

    >>> as_groups(["mon", None, "tue"], rows=3)
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: groups are missing in 1 of 3 rows (row 1). Give such rows ...
    """
    if groups is None:
        if level_asked:
            warnings.warn(
                "groups=None: all rows are one domain, so there is no quantile over domains and "
                "this is plain ERM. Pass groups= with the domain of each row, or set alpha=None.",
                OneDomainWarning,
                stacklevel=stacklevel + 1,
            )
        return Groups(np.zeros(rows, dtype=np.int64), (ONE_DOMAIN,), np.array([rows]))
    column = _column(groups, rows)
    ids, names = _numbered(column)
    return Groups(ids, names, np.bincount(ids, minlength=len(names)))


def domain_weights(risks: Numbers, objective: RiskObjective) -> tuple[float, Numbers]:
    """The value of an objective of the risks (m,), and its slope in each of them (m,).

    The slope is how much each domain counts in the gradient. For a quantile it sums to 1, and
    domains of low risk often have a negative part in it.

    >>> from eqrm import EQRM
    >>> value, weights = domain_weights(np.array([0.2, 0.3, 0.7]), EQRM(0.9))
    >>> round(value, 4), weights.round(4)
    (0.8261, array([-0.2132, -0.0486,  1.2618]))
    """
    given = torch.from_numpy(np.array(risks, dtype=np.float64)).requires_grad_()
    value = objective.of_risks(given)
    if not value.requires_grad:
        return float(value), np.zeros(len(given))
    (slope,) = torch.autograd.grad(value, given)
    return float(value.detach()), slope.numpy()


def _column(groups: Any, rows: int) -> Any:
    """One value per row, as a list of objects, or an array of numbers, or a categorical."""
    if isinstance(groups, (str, bytes, dict, set, frozenset)) or not hasattr(groups, "__len__"):
        raise DomainDataError(
            "groups must be a list, an array or a column with the domain of each row, not "
            f"{type(groups).__name__}."
        )
    shape = tuple(getattr(groups, "shape", (len(groups),)))
    if len(shape) == 2 and shape[1] == 1:
        groups = groups.iloc[:, 0] if hasattr(groups, "iloc") else np.asarray(groups)[:, 0]
        shape = shape[:1]
    if shape != (rows,):
        raise DomainDataError(
            f"groups must give one domain per row: there are {rows} rows, and the shape of groups "
            f"is {shape}."
        )
    categorical = getattr(groups, "cat", groups)
    if hasattr(categorical, "codes") and hasattr(categorical, "categories"):
        return categorical
    return _as_list_or_numbers(groups)


def _as_list_or_numbers(groups: Any) -> Any:
    if hasattr(groups, "detach"):
        return groups.detach().cpu().numpy()
    if isinstance(groups, np.ndarray):
        return groups if groups.dtype.kind in "biufM" else groups.tolist()
    if isinstance(groups, (list, tuple)):
        return groups
    kind = getattr(getattr(groups, "dtype", None), "kind", "")
    if kind in ("i", "u", "f", "b", "M") and hasattr(groups, "to_numpy"):
        found = groups.to_numpy()
        return found if found.dtype.kind in "biufM" else found.tolist()
    for method in ("to_list", "to_pylist", "tolist"):
        if hasattr(groups, method):
            return getattr(groups, method)()
    return np.asarray(groups).tolist()


def _numbered(column: Any) -> tuple[NDArray[np.int64], tuple[Name, ...]]:
    if hasattr(column, "codes"):
        codes = np.asarray(column.codes)
        _refuse_rows(np.flatnonzero(codes < 0), len(codes))
        if getattr(column.categories.dtype, "kind", "") == "M":
            return _numbered_dates(np.asarray(column.categories)[codes])
    elif isinstance(column, np.ndarray):
        if column.dtype.kind in "fM":
            _refuse_rows(np.flatnonzero(np.isnan(column)), len(column))
        if column.dtype.kind == "M":
            return _numbered_dates(column)
    else:
        return _numbered_objects(column)
    ids, names = number_domains(column, torch.device("cpu"))
    return np.asarray(ids.numpy(), dtype=np.int64), _plain(names)


def _numbered_dates(dates: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[Name, ...]]:
    """Each by its date, and its time where it has one: a name must not depend on the others."""
    found, ids = np.unique(dates, return_inverse=True)
    return ids.reshape(-1), tuple(np.datetime_as_string(found, unit="auto").tolist())


def _numbered_objects(column: Sequence[Any]) -> tuple[NDArray[np.int64], tuple[Name, ...]]:
    """By a dictionary: several times as fast as sorting texts, and one look per distinct name."""
    try:
        distinct = set(column)
    except TypeError:
        raise DomainDataError(
            "Domains must be integers or texts, one per row, but groups hold "
            f"{type(column[0]).__name__}s."
        ) from None
    if any(is_missing(name) for name in distinct):
        missing = [row for row, name in enumerate(column) if is_missing(name)]
        _refuse_rows(np.array(missing), len(column))
    kinds = {_kind(name) for name in distinct}
    if len(kinds) > 1:
        raise DomainDataError(
            f"Domains must be of one kind, but groups hold {' and '.join(sorted(kinds))}. Turn "
            "them into texts: [str(name) for name in groups]."
        )
    if kinds == {"moments"}:
        return _numbered_dates(np.array(column, dtype="datetime64[ns]"))
    if kinds == {"fractions"}:
        raise DomainDataError("Domains must be integers or texts, but groups hold fractions.")
    names = sorted(distinct)
    places = {name: place for place, name in enumerate(names)}
    ids = np.fromiter(map(places.__getitem__, column), dtype=np.int64, count=len(column))
    return ids, _plain(names)


def _kind(name: Any) -> str:
    if isinstance(name, str):
        return "texts"
    if isinstance(name, (float, np.floating)):
        return "fractions"
    if isinstance(name, (datetime, np.datetime64)) and getattr(name, "tzinfo", None) is None:
        return "moments"
    return "numbers" if isinstance(name, (int, np.integer)) else type(name).__name__


def _plain(names: Sequence[Any]) -> tuple[Name, ...]:
    """Integers and texts, which can be written to a file and compared when they are read."""
    return tuple(
        int(name)
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool)
        else str(name)
        for name in names
    )


def _refuse_rows(rows: NDArray[np.int64], total: int) -> None:
    if rows.size == 0:
        return
    shown = ", ".join(map(str, rows[:SHOWN_ROWS].tolist()))
    more = f" and {rows.size - SHOWN_ROWS} more" if rows.size > SHOWN_ROWS else ""
    word = "row" if rows.size == 1 else "rows"
    raise DomainDataError(
        f"groups are missing in {rows.size} of {total} rows ({word} {shown}{more}). Give such "
        "rows a domain of their own or drop them."
    )
