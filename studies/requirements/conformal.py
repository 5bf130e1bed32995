"""Split-conformal sets and intervals of pooled rows, which take rows as drawn alike."""

from __future__ import annotations

import math
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from studies.requirements.splits import Array, Split

LEVEL = 0.9
"""Of rows."""
FORMULA = "formula"


def by_formula(model: Any, split: Split) -> Array:
    """Ends (n, 2) of intervals, or which classes are in the sets (n, K), of the new rows.

    The ⌈0.9 (n + 1)⌉-th smallest score of n calibration rows is the limit.
    """
    scores, new = _scores(model, split), _predicted(model, split.test.X, split)
    limit = np.sort(np.abs(scores))[math.ceil(LEVEL * (len(scores) + 1) - 1e-9) - 1]
    if split.numbers:
        return np.column_stack([new - limit, new + limit])
    return np.asarray(1.0 - new <= limit, np.float64)


def by_mapie(model: Any, split: Split) -> Array:
    """The same by MAPIE's split-conformal classifier (lac) or regressor (absolute residuals)."""
    rows, X = split.calibration, split.test.X
    if split.numbers:
        regressor: Any = import_module("mapie.regression").SplitConformalRegressor
        made = regressor(model, confidence_level=LEVEL, prefit=True)
        return np.asarray(made.conformalize(rows.X, rows.y).predict_interval(X)[1][:, :, 0])
    classifier: Any = import_module("mapie.classification").SplitConformalClassifier
    made = classifier(model, confidence_level=LEVEL, conformity_score="lac", prefit=True)
    return np.asarray(made.conformalize(rows.X, rows.y).predict_set(X)[1][:, :, 0], np.float64)


def by_crepes(model: Any, split: Split) -> Array:
    """The same by the standard conformal regressor or classifier of crepes, without smoothing."""
    package: Any = import_module("crepes")
    new = _predicted(model, split.test.X, split)
    made = package.ConformalRegressor() if split.numbers else package.ConformalClassifier()
    made.fit(_scores(model, split))
    if split.numbers:
        return np.asarray(made.predict_int(new, confidence=LEVEL))
    return np.asarray(made.predict_set(1.0 - new, confidence=LEVEL, smoothing=False), np.float64)


WAYS = {"MAPIE": by_mapie, "crepes": by_crepes, FORMULA: by_formula}


def installed() -> list[str]:
    """The packages that are there."""
    return [name for name in ("MAPIE", "crepes") if find_spec(name.lower()) is not None]


def _predicted(model: Any, X: Array, split: Split) -> Array:
    found: Array = model.predict(X) if split.numbers else model.predict_proba(X)
    return found


def _scores(model: Any, split: Split) -> Array:
    """Residuals, or what the right class lacks to 1, of the calibration rows."""
    y, known = split.calibration.y, _predicted(model, split.calibration.X, split)
    found: Array = y - known if split.numbers else 1.0 - known[np.arange(len(y)), y]
    return found
