"""``eqrm backtest``: fitted and given predictions, resuming, and what is refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli.commands import called, printed_by, refused
from eqrm.errors import MissingExtraError
from eqrm.evaluation import Backtest, quantile_bound
from eqrm.tabular import backtesting as job

DAYS, ROWS = 110, 8
FITTED = ["--target", "sold", "--domain", "day", "--train", "30", "--certify", "40"]
JUDGED = ["--judge", "20", "--measure", "superquantile", "--quantiles", ".5,.9"]


def days(seed: int = 0, shuffled: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = DAYS * ROWS
    day = np.repeat(np.arange(DAYS), ROWS)
    x = rng.normal(size=n)
    late = rng.random(n) < 1 / (1 + np.exp(-x - rng.normal(size=DAYS)[day]))
    frame = pd.DataFrame(
        {
            "day": np.datetime64("2013-01-01") + day,
            "x": x.round(3),
            "sold": late.astype(int),
            "p": (1 / (1 + np.exp(-x))).round(4),
            "shop": [f"s{(d * 7) % DAYS:03d}" for d in day],
        }
    )
    return frame.sample(frac=1, random_state=0) if shuffled else frame


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("days") / "t.csv"
    days().drop(columns=["p", "shop"]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predicted") / "p.parquet"
    days(shuffled=True).to_parquet(path, index=False)
    return path


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without matplotlib, which takes most of the time of these tests."""

    def absent(found: Any) -> None:
        raise MissingExtraError("matplotlib", "plots", "Drawing a figure")

    monkeypatch.setattr(Backtest, "draw", absent)


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "backtest.json").read_text(encoding="utf-8"))
    return found


def test_predictors_are_fitted_in_every_window_and_kept(
    table: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    out = tmp_path / "out"
    command = ["backtest", str(table), *FITTED, *JUDGED, "--output", str(out)]
    printed = printed_by(*command)
    assert "Models refitted on 30 domains, bounds from the next 40, judged on the 20" in printed
    found = result(out)
    assert found["models"] == [
        "base rate",
        "50/50 guess",
        "ERM",
        "superquantile for 0.9",
    ]
    assert {row["window"] for row in found["windows"]} == {1, 2}
    assert sorted(path.name for path in out.iterdir()) == [
        "backtest.json",
        "fits",
        "report.html",
        "shares.csv",
        "shares.svg",
        "summary.txt",
    ]
    monkeypatch.setattr(job, "fit_window", None)  # nothing is fitted again
    before = (out / "shares.csv").read_text()
    again = printed_by(*command, "--certify", "45")
    assert "bounds from the next 40, 45" in again
    after = (out / "shares.csv").read_text()
    assert after.startswith(before)


@pytest.mark.usefixtures("no_pictures")
def test_given_predictions_are_certified_without_fitting(predicted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--target", "sold", "--domain", "day", "--prediction", "mine=p", "--certify", "60"]
    printed = printed_by("backtest", str(predicted), *options, "--output", str(out))
    frame = days()
    y, p = frame["sold"], frame["p"]
    losses = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    risks = losses.groupby(frame["day"]).mean().to_numpy()
    bound = quantile_bound(risks[:60], 0.9).bound
    rows = {(r["model"], r["level"]): r for r in result(out)["windows"] if r["window"] == 1}
    assert rows["mine", 0.9]["bound"] == pytest.approx(bound)
    assert rows["mine", 0.9]["within"] == int((risks[60:90] <= bound).sum())
    late = y.to_numpy().reshape(DAYS, ROWS).mean(axis=1)
    others = (late[:60].sum() - late[:60]) / 59  # each day by the base rate of the others
    past = -(late[:60] * np.log(others) + (1 - late[:60]) * np.log(1 - others))
    rate, later = late[:60].mean(), late[60:90]
    bound = quantile_bound(past, 0.9).bound
    assert rows["base rate", 0.9]["bound"] == pytest.approx(bound)
    judged = -(later * np.log(rate) + (1 - later) * np.log(1 - rate))
    assert rows["base rate", 0.9]["within"] == int((judged <= bound + 1e-12).sum())
    assert "50/50 guess" in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--train", "30", "--prediction", "p", "--model", "mlp", "--judge", "0"],
            [
                "With --prediction nothing is fitted: leave out --train, --model.",
                "--target COLUMN is required",
                "--domain COLUMN is required",
                "judge must be an integer of at least 1, got 0.",
            ],
        ),
        (
            ["--metric", "brier", "--certify", "4o"],
            ["--metric can only be used with --prediction", "--train N is required", "got '4o'"],
        ),
        (
            ["--loss", "l", "--target", "sold", "--domain", "day", "--prediction", "p"],
            ["Use either --prediction (with --target) or --loss."],
        ),
        (
            ["--loss", "l", "--target", "sold", "--clip", ".1", "--domain", "day"],
            ["--loss holds losses already: leave out --target, --clip."],
        ),
        ([*FITTED, "--certify", "20"], ["20 domains to certify on", "at least 29 are needed"]),
        ([*FITTED, "--judge", "60"], ["A window of 130 domains (train 30, certify 40, judge 60)"]),
        ([*FITTED, "--measure", "quantil"], ["Did you mean 'quantile'?"]),
        ([*FITTED, "--set", "colour=1"], ["colour"]),
    ],
)
def test_everything_wrong_is_said_at_once_and_quickly(
    table: Path, tmp_path: Path, options: Any, words: Any
) -> None:
    out, start = tmp_path / "out", time.process_time()
    err = refused("backtest", str(table), *options, "--output", str(out))
    assert time.process_time() - start < 2.0
    assert [word for word in words if word not in err] == []
    assert not out.exists()


def broken(tmp_path: Path, change: Any) -> Path:
    frame = days().drop(columns=["p"]).astype({"day": str})
    path = tmp_path / "t.csv"
    change(frame).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (
            lambda f: f.assign(day=f["day"].replace("2013-01-05", "2999-01-05")),
            ["--domain", "day", "--drop", "shop"],
            "domain '2999-01-05' are in the future",
        ),
        (lambda f: f, ["--domain", "shop", "--order", "x"], "come again"),
        (lambda f: f, ["--domain", "shop", "--drop", "day"], "must be dates such as 2013-01-31"),
        (
            lambda f: f.assign(sold=np.where(np.arange(len(f)) < 240, 0, f["sold"])),
            ["--domain", "day", "--drop", "shop"],
            "Window 1: The target is 0 in every row",
        ),
    ],
)
def test_domains_without_a_proper_order_are_refused_before_fitting(
    tmp_path: Path, change: Any, options: Any, words: str
) -> None:
    path, out = broken(tmp_path, change), tmp_path / "out"
    sizes = ["--train", "30", "--certify", "40", "--judge", "20", "--target", "sold"]
    command = ["backtest", str(path), *sizes, *options, "--output", str(out)]
    assert words in refused(*command)
    assert not out.exists()


@pytest.mark.usefixtures("no_pictures")
def test_an_interrupted_backtest_keeps_its_fits_and_goes_on(
    table: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    out, calls, real = tmp_path / "out", [], job.fit_window

    def fit(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(job, "fit_window", fit)
    command = ["backtest", str(table), *FITTED, "--judge", "20", "--measure", "superquantile"]
    code, _, err = called(*command, "--output", str(out))
    assert code == 130
    assert "Interrupted while fitting window 2 of 2" in err
    assert "1 fitted window kept in" in err
    code, _, _ = called(*command, "--output", str(out))
    assert (code, len(calls)) == (0, 3)
    (damaged, _) = sorted((out / "fits").iterdir())
    damaged.write_text(damaged.read_text()[:-40])
    called(*command, "--output", str(out))
    assert len(calls) == 4  # what is not whole is fitted again


def test_a_folder_with_other_files_is_refused(table: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    code, _, err = called("backtest", str(table), *FITTED, "--output", str(tmp_path))
    assert code == 2
    assert "contains other files" in err
