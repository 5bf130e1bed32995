"""Cross-fitting: folds of whole domains, and clones of an estimator fitted on some rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import _routing_enabled, process_routing
from sklearn.utils.validation import has_fit_parameter

from eqrm.checks import is_integer
from eqrm.errors import EqrmWarning
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.selection.splitters import DomainKFold, Split


def whole_folds(
    rows: TrainingRows, cv: Any, random_state: Any, classifier: bool, in_domains: bool
) -> Iterator[Split]:
    """Training and test rows of each fold.

    ``cv`` is how many folds of whole domains there are, or of rows where there are no domains; or
    a splitter or list of splits, as it is.
    """
    if is_integer(cv) and in_domains:
        folds: Any = DomainKFold(int(cv), random_state=random_state)
    else:
        folds = check_cv(cv, rows.y, classifier=classifier)
    yield from folds.split(rows.X, rows.y, rows.groups.ids if in_domains else None)


def fitted_clone(owner: Any, rows: TrainingRows, chosen: NDArray[np.int64] | None = None) -> Any:
    """A clone of ``owner.estimator``, fitted on rows, or on some of them.

    It is given the domains and weights that it takes or, with metadata routing, requests.
    """
    X, y, weights, groups = rows.X, rows.y, rows.sample_weight, None
    if len(rows.groups) > 1:
        groups = np.asarray(rows.groups.names, dtype=object)[rows.groups.ids]
    if chosen is not None:
        X, y = _safe_indexing(X, chosen), y[chosen]
        weights = None if weights is None else weights[chosen]
        groups = None if groups is None else groups[chosen]
    given = {"groups": groups, "sample_weight": weights}
    given = {name: value for name, value in given.items() if value is not None}
    if _routing_enabled():
        given = dict(process_routing(owner, "fit", **given).estimator.fit)
    else:
        taken = {n: v for n, v in given.items() if has_fit_parameter(owner.estimator, n)}
        if "sample_weight" in given and "sample_weight" not in taken and chosen is None:
            warnings.warn(
                f"{type(owner.estimator).__name__}.fit does not take sample_weight: the weights "
                "are used for the correction only.",
                EqrmWarning,
                stacklevel=3,
            )
        given = taken
    return clone(owner.estimator).fit(X, y, **given)
