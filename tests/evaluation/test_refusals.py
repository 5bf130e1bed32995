"""What cannot be used is refused with the rows or domains, the reason and a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.errors import DataFileError, DomainDataError, EqrmError, SettingError
from evaluation.routes import ROUTES, as_csv, as_parquet, world

PREDICTED = {"domains": "ward", "target": "y", "predictions": "erm"}
GIVEN = {"domains": "ward", "losses": "loss"}


def spoiled(**cells: Any) -> Callable[[], pd.DataFrame]:
    """The world with some cells of row 700 (ward 3) replaced."""

    def make() -> pd.DataFrame:
        frame = world().assign(ward=lambda f: f.ward.where(f.index != 700, 3))
        for column, value in cells.items():
            if isinstance(value, float) and frame[column].dtype.kind == "i":
                frame[column] = frame[column].astype(float)
            frame.loc[700, column] = value
        return frame

    return make


CASES: dict[str, tuple[Callable[[], pd.DataFrame], dict[str, Any], str]] = {
    "probability above 1": (spoiled(erm=1.25), PREDICTED, "not a probability between 0 and 1"),
    "missing prediction": (spoiled(erm=np.nan), PREDICTED, "the prediction is"),
    "missing label": (spoiled(y=np.nan), PREDICTED, "label"),
    "label 2": (spoiled(y=2), PREDICTED, "labels must be 0 or 1"),
    "log of 0": (spoiled(y=1, erm=0.0), PREDICTED, "clip=1e-07"),
    "infinite loss": (spoiled(loss=np.inf), GIVEN, "losses must be finite"),
    "NaN loss": (spoiled(loss=np.nan), GIVEN, "losses must be finite"),
    "overflowing square": (
        spoiled(erm=1e200),
        {**PREDICTED, "metric": "squared"},
        "the loss overflows",
    ),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", CASES)
def test_an_unusable_row_is_named_with_its_domain_and_a_way_out(
    case: str, route: str, tmp_path: Path
) -> None:
    make, question, complaint = CASES[case]
    with pytest.raises(DomainDataError) as caught:
        eqrm.evaluate(ROUTES[route](make(), tmp_path), **question)
    message = str(caught.value)
    assert "1 of 1,500 rows have no usable loss, in domain 3" in message
    place = {"parquet": "row 701", "csv": "row 701", "frame": "index 700"}
    assert place.get(route, "part-1.parquet row 234") in message
    assert complaint in message


@pytest.mark.parametrize("route", ROUTES)
def test_a_missing_domain_is_refused(route: str, tmp_path: Path) -> None:
    frame = world()
    frame.loc[700, "hospital"] = None
    with pytest.raises(DomainDataError, match="missing"):
        eqrm.evaluate(ROUTES[route](frame, tmp_path), domains="hospital", losses="loss")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("question", "wrong", "meant"),
    [
        ({**GIVEN, "domains": "Wrad"}, "Wrad", "ward"),
        ({**PREDICTED, "target": "yy"}, "yy", None),
        ({**PREDICTED, "predictions": "eqmr"}, "eqmr", "eqrm"),
        ({"domains": "hospitl", "aggregated": True}, "hospitl", "hospital"),
    ],
)
def test_a_misspelt_column_is_refused_with_the_nearest(
    question: dict[str, Any], wrong: str, meant: str | None, route: str, tmp_path: Path
) -> None:
    with pytest.raises(DomainDataError) as caught:
        eqrm.evaluate(ROUTES[route](world(), tmp_path), **question)
    assert f"has no column {wrong!r}" in str(caught.value)
    if meant:
        assert f"Did you mean {meant!r}?" in str(caught.value)


@pytest.mark.parametrize("cut", [0, 4, 20_000])
def test_a_parquet_file_cut_off_anywhere_is_refused(cut: int, tmp_path: Path) -> None:
    path = as_parquet(world(), tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataFileError, match=r"measured\.parquet"):
        eqrm.evaluate(path, **GIVEN)


@pytest.mark.parametrize("kind", ["binary", "cut", "compressed and cut", "only a header", "empty"])
def test_a_damaged_csv_file_is_refused(kind: str, tmp_path: Path) -> None:
    import gzip

    path = as_csv(world(), tmp_path)
    content = path.read_bytes()
    header = content.splitlines(keepends=True)[0]
    if kind == "compressed and cut":
        path = tmp_path / "measured.csv.gz"
        content = gzip.compress(content)[:-2000]
    path.write_bytes(
        {
            "binary": header + bytes(range(256)) * 40,
            "cut": content[:-100].rsplit(b",", 2)[0],
            "compressed and cut": content,
            "only a header": header,
            "empty": b"",
        }[kind]
    )
    with pytest.raises(EqrmError):
        eqrm.evaluate(path, **GIVEN)


def test_a_file_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    as_csv(world(), tmp_path)
    with pytest.raises(DataFileError, match=r"does not exist. Did you mean 'measured\.csv'"):
        eqrm.evaluate(tmp_path / "mesured.csv", **GIVEN)
    with pytest.raises(DataFileError, match="does not exist"):
        eqrm.evaluate(str(tmp_path / "*.parquet"), **GIVEN)
    (tmp_path / "measured.xlsx").write_text("x")
    with pytest.raises(DataFileError, match="file extension of a CSV or Parquet"):
        eqrm.evaluate(tmp_path / "measured.xlsx", **GIVEN)


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"losses": "loss"}, "Specify the domain"),
        ({"domains": "ward"}, "either losses"),
        ({"domains": "ward", "losses": "loss", "target": "y"}, "either losses"),
        ({"domains": "ward", "target": "y"}, r"predictions is missing"),
        ({**PREDICTED, "metric": "logloss"}, "Did you mean 'log-loss'"),
        ({**PREDICTED, "metric": "pinball"}, "pinball:0.9"),
        ({**PREDICTED, "clip": 0.7}, "below 0.5, got 0.7"),
        ({"domains": "ward", "aggregated": True, "columns": {"man": "x"}}, "Did you mean 'mean'"),
    ],
)
def test_an_incomplete_question_is_refused(question: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        eqrm.evaluate(world(), **question)


def aggregated(**cells: Any) -> pd.DataFrame:
    table = pd.DataFrame(
        {"site": ["a", "b", "c"], "n": [5.0, 1.0, 9.0], "mean": 0.5, "variance": [0.1, np.nan, 0.2]}
    )
    for column, value in cells.items():
        table.loc[2, column] = value
    return table


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ({"n": 0}, "n must be an integer of at least 1, got 0 for domain 'c'"),
        ({"mean": np.inf}, "mean must be a finite number"),
        ({"variance": -0.1}, "variance must be a finite number of at least 0"),
    ],
)
def test_an_impossible_table_per_domain_is_refused(
    cells: dict[str, Any], complaint: str, route: str, tmp_path: Path
) -> None:
    good = eqrm.evaluate(ROUTES[route](aggregated(), tmp_path), domains="site", aggregated=True)
    assert good.domains == ("a", "b", "c")
    data = ROUTES[route](aggregated(**cells), tmp_path)
    with pytest.raises(DomainDataError, match=complaint):
        eqrm.evaluate(data, domains="site", aggregated=True)


def test_labels_without_a_probability_are_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"d": [1, 1, 2], "y": ["cat", "cow", "dog"], "p_cat": [0.5] * 3, "p_dog": [0.5] * 3}
    )
    path = as_parquet(frame, tmp_path)
    with pytest.raises(DomainDataError, match=r"'cow' is never predicted.*classes: 'cat', 'dog'"):
        eqrm.evaluate(path, domains="d", target="y", predictions="p_{class}")
    with pytest.raises(DomainDataError, match=r"label 3 is never predicted"):
        eqrm.evaluate(domains=[0, 1], target=[0, 3], predictions=np.full((2, 2), 0.5))
    with pytest.raises(DomainDataError, match="matches 0 columns"):
        eqrm.evaluate(path, domains="d", target="y", predictions="q_{class}")
    with pytest.raises(DomainDataError, match="add up to 1"):
        eqrm.evaluate(domains=[0, 1], target=[0, 1], predictions=np.full((2, 2), 0.3))
    as_parquet(frame.assign(y="cat", p_dog=[0.5, np.nan, 0.5]), tmp_path)
    with pytest.raises(DomainDataError, match="probabilities must be numbers"):
        eqrm.evaluate(path, domains="d", target="y", predictions="p_{class}")


@pytest.mark.parametrize("route", ROUTES)
def test_labels_that_are_never_predicted_are_refused(route: str, tmp_path: Path) -> None:
    frame = world().assign(species=lambda f: np.where(f.y == 1, "cat", "dog"))
    data = ROUTES[route](frame, tmp_path)
    question = {"domains": "ward", "target": "species", "metric": "0-1"}
    with pytest.raises(DomainDataError, match="y: no prediction equals its label in any of 1,500"):
        eqrm.evaluate(data, predictions="y", **question)
    assert eqrm.evaluate(data, predictions="species", **question)["species"].risks.max() == 0.0
