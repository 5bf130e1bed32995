"""From scikit-learn's ``groups`` to domains, and from losses per row to one risk per domain.

Everything here is numpy: estimators and gradient boosting call it in every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import Name, number_domains
from eqrm.errors import DomainDataError
from eqrm.linear.solving.risk_functions import Array

ONE_DOMAIN = "all rows"
"""The name of the only domain where no groups were given."""
ROUTING = (
    "A Pipeline, GridSearchCV or cross_val_score passes them on after "
    "sklearn.set_config(enable_metadata_routing=True): pipeline.fit(X, y, groups=groups), "
    "search.fit(X, y, groups=groups), cross_val_score(model, X, y, params={'groups': groups})."
)
"""How groups reach an estimator through scikit-learn; fit requests them by default."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The domains of n rows: ``ids`` (n,) from 0, ``names`` and ``counts`` (m,) of the domains."""

    ids: NDArray[np.int64]
    names: tuple[Name, ...]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, values: NDArray[Any]) -> Array:
        """Σ of the values (n,) in each domain (m,), in float64."""
        totals = np.bincount(self.ids, weights=values, minlength=len(self))
        return totals.astype(np.float64, copy=False)

    def means(self, losses: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Array:
        """The risk of each domain (m,): the (weighted) mean of its losses (n,)."""
        if sample_weight is None:
            return self.sums(losses) / self.counts
        return self.sums(losses * sample_weight) / self.sums(sample_weight)

    def row_weights(self, per_domain: Array, sample_weight: Any = None) -> Array:
        """d(objective)/d(loss of each row) (n,) from d(objective)/d(risk of each domain) (m,).

        A row's share of its domain's risk is 1/n_e, or w_i/Σw with weights.
        """
        if sample_weight is None:
            return (per_domain / self.counts)[self.ids]
        return np.asarray((per_domain / self.sums(sample_weight))[self.ids] * sample_weight)

    def refuse_diverged(self, risks: Array) -> None:
        """Refuse risks (m,) that are not finite, by the name of the domain."""
        bad = np.flatnonzero(~np.isfinite(risks))
        if bad.size:
            raise DomainDataError(
                f"The risk of domain {self.names[bad[0]]!r} is not finite: training has diverged, "
                "or the data contains very large values. Use a smaller learning_rate or a stronger "
                "penalty."
            )

    def only(self, rows: NDArray[Any]) -> Groups:
        """The domains of some of the rows, by mask or index; a domain without rows is left out."""
        ids = self.ids[rows]
        counts = np.bincount(ids, minlength=len(self))
        present = counts > 0
        places = np.cumsum(present) - 1
        names = tuple(n for n, kept in zip(self.names, present.tolist(), strict=True) if kept)
        return Groups(places[ids], names, counts[present])


def required_groups(groups: Any, rows: int, owner: str) -> Groups:
    """The domains of ``rows`` rows, for an ``owner`` that cannot do without them."""
    if groups is None:
        raise DomainDataError(f"{owner} needs groups: pass the domain of each row as groups=.")
    return as_groups(groups, rows)


def as_groups(groups: Any, rows: int, *, level_asked: bool = True) -> Groups:
    """The domains of ``rows`` rows, numbered in the order of their sorted names.

    ``groups`` is whatever :func:`eqrm.domains.number_domains` takes. ``None`` is one domain where
    the plain mean was asked for, and else an error: a level needs domains.
    """
    if groups is None:
        if level_asked:
            raise DomainDataError(
                "groups are missing: without the domain of each row there is no risk by domain. "
                f"Pass them, fit(X, y, groups=groups). {ROUTING} For plain training, the mean over "
                "all rows (ERM), set alpha=None or measure='mean'."
            )
        return Groups(np.zeros(rows, dtype=np.int64), (ONE_DOMAIN,), np.array([rows]))
    found = number_domains(groups, rows, "groups")
    return Groups(found.ids, found.names, np.bincount(found.ids, minlength=len(found.names)))
