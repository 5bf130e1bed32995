"""The linear models as scikit-learn estimators: its own checks, frames, cloning, pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from eqrm import LinearQRM
from eqrm.errors import DomainDataError
from eqrm.linear import DomainMoments, LinearERM, LinearIRM, LinearVREx

GROUPS = np.repeat(["a", "b", "c"], 20)


def table() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 3)) + np.repeat([0.0, 0.5, 1.0], 20)[:, None]
    return X, X @ [1.0, 2.0, 3.0] + generator.standard_normal(60)


class OneDomain:
    """scikit-learn's checks know no groups: to them all rows are one domain."""

    _needs_domains = False


class OneDomainQRM(OneDomain, LinearQRM): ...


class OneDomainVREx(OneDomain, LinearVREx): ...


class OneDomainIRM(OneDomain, LinearIRM): ...


CHECKED = [
    LinearERM(),
    OneDomainQRM(),
    OneDomainVREx(),
    OneDomainIRM(fit_intercept=False),
]


@pytest.mark.unmeasured
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.DataConversionWarning",
    "ignore::sklearn.exceptions.SkipTestWarning",
)
@parametrize_with_checks(CHECKED)
def test_scikit_learns_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


def test_without_groups_erm_is_least_squares_and_all_others_refuse() -> None:
    X, y = table()
    expected = LinearRegression().fit(X, y)
    np.testing.assert_allclose(LinearERM().fit(X, y).coef_, expected.coef_, rtol=1e-7)
    for model in (LinearQRM(), LinearVREx(), LinearIRM()):
        with pytest.raises(DomainDataError, match=r"groups are missing.*metadata_routing"):
            model.fit(X, y)


def test_groups_pass_through_pipelines_and_searches() -> None:
    X, y = table()
    pipeline = make_pipeline(StandardScaler(), LinearQRM(0.8))
    pipeline.fit(X, y, linearqrm__groups=GROUPS)
    alone = LinearQRM(0.8).fit(X, y, groups=GROUPS)
    np.testing.assert_allclose(pipeline.predict(X), alone.predict(X), rtol=1e-6)
    search = GridSearchCV(LinearQRM(), {"l2": [0.0, 0.1]}, cv=GroupKFold(3))
    with config_context(enable_metadata_routing=True):
        search.fit(X, y, groups=GROUPS)
    assert len(search.best_estimator_.risks_) == 3


def frames(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    arrow = pyarrow.table(columns)
    return {
        "pandas": pd.DataFrame(columns),
        "polars": polars.DataFrame(columns),
        "arrow": arrow,
        "record batch": arrow.combine_chunks().to_batches()[0],
        "mapping": columns,
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "record batch", "mapping"])
def test_the_columns_of_a_frame_are_those_fitted_to_or_refused(kind: str) -> None:
    """Once, predict took the reordered columns of a polars frame as they were."""
    X, y = table()
    names = ("x", "y", "z")
    columns = dict(zip(names, X.T, strict=True))
    frame = frames(columns)[kind]
    expected = LinearQRM(starts=1).fit(X, y, GROUPS).predict(X)
    reordered = frames({name: columns[name] for name in names[::-1]})[kind]
    renamed = frames({f"{name}_": column for name, column in columns.items()})[kind]
    moments = DomainMoments.from_arrays(frame, y, GROUPS)
    for model in (LinearQRM(starts=1).fit(frame, y, GROUPS), LinearQRM(starts=1).fit(moments)):
        assert model.moments_.features == names
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-9)
        with pytest.raises(DomainDataError, match="same order"):
            model.predict(reordered)
        with pytest.raises(DomainDataError, match="feature names should match"):
            model.predict(renamed)


def test_columns_named_by_integers_are_not_taken_in_another_order() -> None:
    X, y = table()
    frame = pd.DataFrame(X)
    model = LinearQRM().fit(frame, y, GROUPS)
    for other in (frame[[2, 0, 1]], frame.rename(columns={2: 5})):
        with pytest.raises(DomainDataError, match="feature names should match"):
            model.predict(other)


def test_tensors_give_tensors() -> None:
    X, y = table()
    model = LinearQRM().fit(torch.from_numpy(X), torch.from_numpy(y), torch.arange(60) // 20)
    found = model.predict(torch.from_numpy(X).float())
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-5)
