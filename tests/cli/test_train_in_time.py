"""``eqrm train`` on the past, evaluated on later domains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from cli.commands import refuse_in_one_line, run

pytestmark = pytest.mark.usefixtures("no_figure")

WEEKS, ROWS = 40, 12


def weeks(seed: int = 0) -> pd.DataFrame:
    """A shop per week, whose names are not in the order of time, on several days each."""
    rng = np.random.default_rng(seed)
    n = WEEKS * ROWS
    week = np.repeat(np.arange(WEEKS), ROWS)
    days = week * 7 + rng.integers(0, 7, n)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "shop": [f"s{(w * 7) % WEEKS:02d}" for w in week],
            "date": np.datetime64("2013-01-01") + days,
            "week": week,
            "x": x.round(3),
            "sold": (x * (1 + rng.normal(size=WEEKS)[week]) + rng.normal(size=n)).round(3),
        }
    ).sample(frac=1, random_state=0)


def trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str, ending: str = "csv"
) -> tuple[str, list[str], Path]:
    """What was printed, the domains evaluated on, and the folder."""
    path, out = tmp_path / f"shops.{ending}", tmp_path / "out"
    frame = weeks()
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
    command = [
        "train",
        str(path),
        "--target",
        "sold",
        "--alpha",
        ".9",
        "--surrogate",
        "none",
        "--output",
        str(out),
    ]
    code, printed, err = run(capsys, *command, *options)
    assert (code, err) == (0, "")
    found = json.loads((out / "evaluation.json").read_text())
    return (
        " ".join(printed.split()),
        [str(name) for name in found["predictors"]["ERM"]["domains"]],
        out,
    )


def test_dates_that_were_split_at_random_are_remarked_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = weeks().assign(day=lambda f: [f"2013-01-{1 + week // 2:02d}" for week in f["week"]])
    note = "Note: The domains are dates, and test domains lie between training domains."
    path = tmp_path / "days.csv"
    frame.drop(columns=["shop", "date", "week"]).to_csv(path, index=False)
    command = ["train", str(path), "--target", "sold", "--domain", "day", "--surrogate", "none"]
    command += ["--alpha", ".9", "--output", str(tmp_path / "out")]
    assert note in " ".join(run(capsys, *command)[1].split())
    later = run(capsys, *command[:-1], str(tmp_path / "later"), "--test-last", ".3")
    assert note not in " ".join(later[1].split())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_later_domains_are_held_out_by_a_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    options = ["--domain", "shop", "--order", "date", "--drop", "week", "--test-after"]
    said, later, out = trained(tmp_path, capsys, *options, "2013-07-03", ending=ending)
    frame = weeks()
    spans = frame.groupby("shop")["date"].agg(["min", "max"])
    cut = pd.Timestamp("2013-07-03")
    assert sorted(later) == sorted(spans.index[spans["min"] > cut])
    (left_out,) = spans.index[(spans["min"] <= cut) & (spans["max"] > cut)]
    before, after = spans[spans["max"] <= cut], spans[spans["min"] > cut]
    assert (
        f"Trained on {len(before)} domains ({len(before) * ROWS} rows), {before['min'].min():%F} "
        f"to {before['max'].max():%F}; evaluated on {len(after)} later domains "
        f"({len(after) * ROWS} rows), {after['min'].min():%F} to {after['max'].max():%F}."
    ) in said
    assert "1 domain has rows both before and after the cut and so took no part" in said
    assert f"evaluation: '{left_out}'." in said
    assert "The order column 'date' is not used as a feature" in said
    assert "assumes that future domains are drawn like the evaluated ones" in said
    assert eqrm.load_model(out / "models" / "erm.safetensors").n_features_in_ == 1


@pytest.mark.parametrize(
    ("options", "later"),
    [
        (["--domain", "week", "--test-last", ".3"], 12),
        (["--domain", "week", "--order", "week"], 29),  # as a certificate needs
        (["--domain", "week", "--test-after", "9"], 30),
        (["--domain", "shop", "--order", "week", "--feature", "x,week", "--test-last", ".25"], 10),
    ],
)
def test_the_domain_itself_or_a_number_may_be_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], later: int
) -> None:
    columns = [] if "--feature" in options else ["--feature", "x"]
    said, names, _ = trained(tmp_path, capsys, *options, *columns)
    number = {f"s{(w * 7) % WEEKS:02d}": w for w in range(WEEKS)}
    found = {number[name] if name in number else int(name) for name in names}
    assert found == set(range(WEEKS - later, WEEKS))
    assert (
        f"{WEEKS - later} domains ({(WEEKS - later) * ROWS} rows), 0 to {WEEKS - later - 1};"
        in said
    )
    assert ("The order column 'week' is a feature" in said) is ("--feature" in options)


def test_a_trend_along_the_order_column_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names tell no time, so that the evaluation alone would not see it."""
    frame = weeks()
    frame["sold"] += frame["week"] * np.where(frame["x"] > 0, 1, -1) * 0.3
    path = tmp_path / "shops.csv"
    frame.drop(columns="date").to_csv(path, index=False)
    options = ["--target", "sold", "--domain", "shop", "--order", "week", "--output"]
    code, printed, _ = run(capsys, "train", str(path), *options, str(tmp_path / "out"))
    assert code == 0
    assert "Risk grows over time" in " ".join(printed.split())


ASKED = ["--target", "sold", "--domain", "shop", "--order", "week"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            [
                *[*ASKED, "--test-last", ".3", "--test-after", "9", "--test-share", ".4"],
                *["--test-domains", "s01", "--test", "other.csv"],
            ],
            "--test, --test-domains, --test-share, --test-after and --test-last cannot be "
            "combined: "
            "each of them chooses the held-out domains. Use one.",
        ),
        ([*ASKED, "--seed", "1"], "--seed has no effect on a split in time and a linear"),
        ([*ASKED, "--test-share", ".4"], "--test-share and --order cannot be combined"),
        ([*ASKED, "--test-last", "2"], "must be a number strictly between 0 and 1, got 2"),
        ([*ASKED, "--test-after", "2013-01-01"], "times of 'week' are numbers, so a number"),
        ([*ASKED, "--test-after", "99"], "No domain is left to test on"),
        (["--target", "sold", "--domain", "shop", "--test-last", ".3"], "--order COLUMN"),
        (["--target", "sold", "--domain", "shop", "--order", "weak"], "no column 'weak'. Did you"),
        (["--target", "week", "--domain", "shop", "--order", "week"], "Target and order cannot be"),
        (["--target", "sold", "--domain", "shop", "--order", "x", "--feature", "week"], "begin at"),
    ],
)
def test_a_mistake_about_time_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    frame: Any = weeks().drop(columns="date")
    frame["x"] = 1.0 if words == "begin at" else frame["x"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    refuse_in_one_line(capsys, tmp_path, options, words)


def test_a_missing_time_names_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = weeks().reset_index(drop=True).astype({"week": object})
    frame.loc[[3, 8], "week"] = None
    frame.drop(columns="date").to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run(capsys, "train", str(tmp_path / "t.csv"), *ASKED)
    assert code == 2
    assert "The order column ('week') is missing in 2 of 480 rows (first: row 4)" in err
    assert "--skip-incomplete" in err


def test_the_seed_is_the_models_where_it_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--domain", "week", "--drop", "date,shop", "--test-last", ".5", "--seed", "3"]
    options += ["--model", "mlp", "--set", "erm_steps=5", "--set", "steps=5"]
    said, _, _ = trained(tmp_path, capsys, *options)
    assert "20 later domains" in said
