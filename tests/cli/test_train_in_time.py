"""``eqrm train`` in time: models of earlier domains are judged on later ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from cli.commands import printed_by, refuse_in_one_line

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


def trained(tmp_path: Path, *options: str, ending: str = "csv") -> tuple[str, list[str], Path]:
    """What is said, the domains that models were judged on or that are kept aside, the folder."""
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
    if "--model" not in options:
        command += ["--model", "linear"]
    printed_by(*command, *options)
    aside = out / "kept-aside.json"
    found = json.loads((aside if aside.exists() else out / "evaluation.json").read_text())
    domains = next(iter(found["models"].values()))["domains"]
    words = " ".join((out / "summary.txt").read_text().split())
    return words, [str(name) for name in domains], out


def test_later_domains_are_kept_aside_by_a_column(tmp_path: Path) -> None:
    options = ["--domain", "shop", "--order", "date", "--drop", "week", "--test-after"]
    said, later, out = trained(tmp_path, *options, "2013-07-03")
    frame = weeks()
    spans = frame.groupby("shop")["date"].agg(["min", "max"])
    cut = pd.Timestamp("2013-07-03")
    assert sorted(later) == sorted(spans.index[spans["min"] > cut])
    (left_out,) = spans.index[(spans["min"] <= cut) & (spans["max"] > cut)]
    before, after = spans[spans["max"] <= cut], spans[spans["min"] > cut]
    assert (
        f"{len(after)} domains from {after['min'].min():%F} to {after['max'].max():%F} are kept "
        f"aside; models were compared on {len(before)} from {before['min'].min():%F} to "
        f"{before['max'].max():%F}."
    ) in said
    assert (
        "1 domain with rows both before and after the cut took part in the last fit alone: "
        f"'{left_out}'."
    ) in said
    assert "The order column 'date' is not used as a feature" in said
    judged = json.loads((out / "evaluation.json").read_text())["models"]["linear, plain"]
    assert set(judged["domains"]) < set(before.index)
    assert eqrm.load_model(out / "models" / "linear-plain.safetensors").n_features_in_ == 1
    model = eqrm.load(out).models["linear, plain"]
    assert model.predict(frame)["prediction"].shape == (len(frame),)
    assert len(model.seen.among(list(spans.index))) == WEEKS  # all of them, in the end


ASKED = ["--target", "sold", "--domain", "shop", "--order", "week"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            [
                *[*ASKED, "--test-last", ".3", "--test-after", "9", "--certify", ".4"],
                *["--test", "other.csv"],
            ],
            "--test, --certify, --test-after and --test-last cannot be combined: each of them "
            "chooses the held-out domains. Use one.",
        ),
        ([*ASKED, "--certify", "s01,s02"], "--certify and --order cannot be combined"),
        ([*ASKED, "--test-after", "99"], "No domain is left to test on"),
        (["--target", "sold", "--domain", "shop", "--test-last", ".3"], "--order COLUMN"),
    ],
)
def test_a_mistake_about_time_is_one_line(tmp_path: Path, options: list[str], words: str) -> None:
    frame: Any = weeks().drop(columns="date")
    frame.to_csv(tmp_path / "t.csv", index=False)
    refuse_in_one_line(tmp_path, options, words)
