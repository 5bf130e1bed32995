"""``eqrm recalibrate``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.commands import called, printed_by
from tabular.prediction_worlds import two_classes

PREDICTED = ["--domain", "day", "--target", "label", "--prediction", "p"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "p.parquet"
    two_classes().to_parquet(path, index=False)
    return path


def test_fit_print_save_and_apply(table: Path) -> None:
    saved, first, second = (table.parent / n for n in ("c.json", "1.parquet", "2.csv"))
    options = ["--alpha", ".9", "--save", str(saved), "--output", str(first)]
    out = printed_by("recalibrate", str(table), *PREDICTED, *options)
    assert "fitted on 30 domains" in out
    assert [line.split("  ")[0] for line in out.splitlines() if "  0." in line] == [
        "as given",
        "recalibrated",
        "base rate",
        "50/50 guess",
    ]
    content = json.loads(saved.read_text())
    assert content["level"] == "0.9"
    assert content["scale"] < 0.8
    out = printed_by("recalibrate", str(table), "--correction", str(saved), "--output", str(second))
    assert out.startswith(f"4,800 rows corrected: 'p' in {second}. The column 'seen' marks ")
    np.testing.assert_allclose(pd.read_csv(second).p, pd.read_parquet(first).p, rtol=1e-12)


def test_missing_and_conflicting_options_are_named_at_once(table: Path) -> None:
    def refusal(*arguments: str) -> str:
        code, out, err = called("recalibrate", str(table), *arguments)
        assert (code, out) == (2, "")
        return err

    told = refusal("--target", "label", "--test-share", ".5", "--test-last", ".5", "--seed", "1")
    assert "--domain, --prediction must be given" in told
    assert "--test-share and --test-last cannot be combined" in told
    assert "--seed has no effect on a split in time" in told
    told = refusal("--correction", "none.json", "--alpha", ".5", "--domain", "day")
    assert "--domain, --alpha cannot be combined with --correction" in told
    assert "'none.json' does not exist" in told
    (table.parent / "c.json").write_text("{}")
    assert "--output FILE is required" in refusal("--correction", str(table.parent / "c.json"))
    assert "holds the data" in refusal(*PREDICTED, "--output", str(table))
    assert "CSV or Parquet" in refusal(*PREDICTED, "--output", str(table.parent / "out.xlsx"))
    same = str(table.parent / "out.csv")
    assert "the same file" in refusal(*PREDICTED, "--output", same, "--save", same)
    assert "has no column 'q'. Choose from: day, label, p" in refusal(*PREDICTED[:-1], "q")
    assert "Unknown metric 'square'" in refusal(*PREDICTED, "--metric", "square")
