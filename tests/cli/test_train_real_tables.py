"""Tables from the real world: all problems at once, and what is done about dates and the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.commands import called, hospitals, refused

pytestmark = pytest.mark.usefixtures("no_figure")
NAMED = ("--target", "ill", "--domain", "hospital")
HEAVY = ("torch", "sklearn", "scipy.stats", "xgboost", "lightgbm", "pandas")


def defective(folder: Path) -> tuple[Path, list[str], list[str]]:
    """A table with ten defects, and their names."""
    frame = hospitals(number=120).astype({"age": object, "ill": object, "hospital": object})
    rows, rng = len(frame), np.random.default_rng(1)
    frame["pressure"] = rng.normal(120, 10, rows).round(2)
    frame["bmi"] = np.where(rng.random(rows) < 0.4, np.nan, rng.normal(25, 4, rows))
    frame["postcode"] = [f"P{code}" for code in rng.integers(0, 1400, rows)]
    frame["admitted"] = pd.date_range("2020-01-01", periods=rows).strftime("%Y-%m-%d")
    frame["visit"] = np.arange(rows).astype(object)
    frame["charge"] = rng.normal(size=rows) * 1e200
    frame["share"] = 1.0
    frame.loc[7, "age"] = "unknown"
    frame.loc[[3, 8], "ill"] = None
    frame.loc[[4], "hospital"] = None
    frame.loc[5, "pressure"] = np.inf
    frame.loc[6, "admitted"] = "soon"
    frame.loc[9, "visit"] = "later"
    frame.loc[10, "share"] = -1.0
    frame.to_csv(folder / "t.csv", index=False)
    options = ["--order", "visit", "--row-weight", "share"]
    words = [
        "The target 'ill' is missing in 2 of 3,000 rows (first: row 4). Fill in the values, or",
        "The domains ('hospital') are missing in 1 of 3,000 rows",
        "rows out (--skip-incomplete)",
        "'age' holds numbers, but also 'unknown', in 1 of 3,000 rows (first: row 8). If that",
        "--missing-value unknown; or read the column as categories (--category age)",
        "Column 'bmi' is missing in 39% of the rows",
        "--max-missing 0.4",
        "Column 'pressure' is infinite in 1 rows (first: row 6)",
        "Column 'postcode' has 1,",
        "--drop postcode",
        "Column 'admitted' holds dates, but also 'soon'",
        "The order column ('visit') must be dates such as 2013-01-31 or numbers, got 'later'",
        "The weights ('share') must be numbers of at least 0, got -1 (row 11",
        "Column 'charge' holds numbers too large to standardise",
    ]
    return folder / "t.csv", options, words


def test_all_problems_of_a_table_are_named_at_once(tmp_path: Path) -> None:
    path, options, words = defective(tmp_path)
    out = tmp_path / "out"
    asked = [*NAMED, *options, "--model", "lineer", "--output", str(out)]
    code, printed, err = called("train", str(path), *asked)
    assert (code, printed) == (2, "")
    assert [each for each in [*words, "Did you mean 'linear'?"] if each not in err] == []
    assert err.count("\n  - ") == 11
    assert not out.exists()


def messy(seed: int = 0, number: int = 50) -> pd.DataFrame:
    """Hospitals with dates, 30% missing numbers, empty text, and three identifiers."""
    rng = np.random.default_rng(seed)
    frame = hospitals(seed, number)
    rows = len(frame)
    days = pd.to_datetime("2019-03-01") + pd.to_timedelta(rng.integers(0, 600, rows), "D")
    frame["admitted"] = days.strftime("%Y-%m-%d")
    frame["bmi"] = np.where(rng.random(rows) < 0.3, np.nan, rng.normal(25, 4, rows).round(1))
    frame["smoker"] = rng.choice(["yes", "no", ""], rows)
    frame["stay"] = rng.permutation(rows) + 10_000
    frame["site"] = frame["hospital"].str[1:].astype(int) * 7
    frame["address"] = "Road " + frame["hospital"]
    frame["weight"] = rng.integers(1, 4, rows)
    return frame


def test_a_messy_table_is_trained_on_and_predicted_for(tmp_path: Path) -> None:
    frame, out = messy(), tmp_path / "out"
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.head(40).to_csv(tmp_path / "new.csv", index=False)
    options = ["--max-missing", "0.4", "--row-weight", "weight", "--class-weight", "balanced"]
    asked = [*NAMED, *options, "--surrogate", "none", "--model", "linear", "--output", str(out)]
    code, printed, err = called("train", str(tmp_path / "t.csv"), *asked)
    assert code == 0, err
    assert printed.startswith(f"{tmp_path / 't.csv'}: 50 hospitals, 1,250 rows;")
    assert " in summary.txt)" in printed  # not all notes are on the first screen
    said = " ".join((out / "summary.txt").read_text().split())
    for words in (
        "'admitted' holds dates: the features are year, month, weekday and days since 2019-03-0",
        "'stay' has a different integer in every row: it is an identifier, and left out",
        "'site' numbers the domains: it is an identifier, and left out",
        "'address' names the domains: it is an identifier, and left out",
        "'smoker' is missing in",
        "missing values are a category of their own",
        "Rows are weighted by the column 'weight' and class weights (no ",
    ):
        assert words in said, words
    predicted = tmp_path / "p.csv"
    asked = [str(out), str(tmp_path / "new.csv"), "--output", str(predicted)]
    code, _, err = called("predict", *asked, "--keep", "stay,admitted")
    assert code == 0, err
    found = pd.read_csv(predicted)
    assert list(found.columns[:4]) == ["stay", "admitted", "hospital", "ill"]
    assert found["stay"].tolist() == frame["stay"].head(40).tolist()
    code, _, err = called("predict", *asked, "--keep", "stya")
    assert code == 2
    assert "no column 'stya'. Did you mean 'stay'?" in err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("balancd", "class_weight must be 'balanced' or a weight for each class"),
        ("yes=5,no", "--class-weight takes 'balanced' or CLASS=WEIGHT, such as yes=5, got 'no'"),
        ("yes=-1", "The weight of class 'yes' must be a number from 1e-06 to 1,000,000, got -1"),
        ("yes=1e308,no=1e308", "must be a number from 1e-06 to 1,000,000, got 1e+308"),
        ("yse=2", "class_weight has the class 'yse', which the target has not. Did you mean 'yes'"),
    ],
)
def test_wrong_class_weights_are_refused(tmp_path: Path, given: str, words: str) -> None:
    hospitals(number=6).to_csv(tmp_path / "t.csv", index=False)
    asked = [*NAMED, "--class-weight", given, "--output", str(tmp_path / "out")]
    assert words in refused("train", str(tmp_path / "t.csv"), *asked)
