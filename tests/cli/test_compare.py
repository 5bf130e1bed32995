"""``eqrm compare``: a leaderboard from whatever was saved."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from cli.commands import called, hospitals, printed_by, refused
from eqrm.tabular.comparing.sources import CONSTANTS


def _predictions(folder: Path, name: str, noise: float, seed: int = 0, number: int = 40) -> str:
    """A file of predictions; more noise is worse."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(number), 20)
    late = np.random.default_rng(7).random(day.size) < 0.5
    logit = 2.0 * (2 * late - 1) + noise * random.normal(size=day.size)
    frame = pd.DataFrame({"day": day, "late": late.astype(int), "p": 1 / (1 + np.exp(-logit))})
    path = folder / f"{name}.parquet"
    frame.to_parquet(path)
    return str(path)


OPTIONS = ("--domain", "day", "--target", "late", "--prediction", "p")


def test_predictions_are_ranked_by_the_quantile_and_trainings_are_gathered(tmp_path: Path) -> None:
    good, again = (_predictions(tmp_path, f"good{i}", 0.5, seed=i) for i in (1, 2))
    bad = _predictions(tmp_path, "bad", 3.0)
    out = printed_by("compare", bad, f"good={good}", f"good={again}", *OPTIONS)
    assert out.startswith("good has the lowest 0.9-quantile of log-loss over 40 domains, clearly")
    lines = out.splitlines()
    headings = ["model", "trainings", "average", "half below", "9 in 10 below", "99 in 100 below"]
    assert re.split(r"\s{2,}", lines[2])[:6] == headings
    assert lines[3].split()[:3] == ["1.", "good", "2"]
    assert " (sd 0.0" in lines[3]
    assert lines[4].split()[:3] == ["2.", "bad", "1"]
    assert "!" in lines[4]
    assert "standard deviation over the trainings" in out
    assert "seed" not in out


def test_all_formats_hold_the_same_numbers(tmp_path: Path) -> None:
    files = [_predictions(tmp_path, name, noise) for name, noise in (("a", 0.5), ("b", 0.6))]
    _, out, _ = called("compare", *files, *OPTIONS, "--format", "json", "--quantiles", ".5")
    found = json.loads(out)
    assert [row["level"] for row in found["models"][:3]] == [None, "0.5", "0.9"]
    _, out, _ = called("compare", *files, *OPTIONS, "--format", "csv", "--quantiles", ".5")
    rows = pd.read_csv(pd.io.common.StringIO(out))
    assert rows.value.tolist() == pytest.approx([row["value"] for row in found["models"]])
    path = tmp_path / "board.md"
    code, out, _ = called(
        "compare", *files, *OPTIONS, "--format", "markdown", "--output", str(path)
    )
    assert (code, out) == (0, f"Wrote {path}.\n")
    assert "| 1. a | 0." in path.read_text()


def test_trainings_models_and_evaluations_are_compared_on_one_table(tmp_path: Path) -> None:
    hospitals(number=40).to_csv(tmp_path / "old.csv", index=False)
    hospitals(1, number=40, first=100).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out"
    result = eqrm.train(tmp_path / "old.csv", "ill", "hospital", surrogate="eqrm")
    result.save(out)
    names = list(json.loads((out / "evaluation.json").read_text())["models"])
    file = out / "evaluation.json"
    printed = printed_by("compare", f"x={out}", f"x={file}", "--format", "json")
    found = json.loads(printed)["models"]
    constants = {name for name in names if name in CONSTANTS}
    assert len(constants) == 2
    assert {row["model"]: row["seeds"] for row in found} == {
        name if name in constants else f"x: {name}": 1 if name in constants else 2 for name in names
    }
    printed = printed_by("compare", str(out), str(file), "--format", "json")
    assert {row["model"]: row["seeds"] for row in json.loads(printed)["models"]} == {
        name if name in constants else f"{path.name}: {name}": 1
        for name in names
        for path in (out, file)
    }
    models = [str(path) for path in sorted((out / "models").iterdir())]
    new = pd.read_csv(tmp_path / "new.csv")
    asked = ("--table", str(tmp_path / "new.csv"), "--alpha", ".5", "--format", "json")
    printed = printed_by("compare", *models, *asked)
    found = json.loads(printed)
    assert found["domains"] == 40
    plain = "logistic, plain"
    own = (plain.replace(", ", "-"), "mean")
    (mean,) = (r for r in found["models"] if (r["model"], r["statistic"]) == own)
    by_hand = eqrm.evaluate(
        domains=new.hospital,
        target=new.ill == "yes",
        predictions=result.predict(new, plain)["p_yes"].to_numpy(),
    )
    assert mean["value"] == pytest.approx(by_hand["model"].risks.mean(), rel=1e-12)


def test_risks_of_other_losses_clips_or_rows_are_not_ranked_silently(tmp_path: Path) -> None:
    file = _predictions(tmp_path, "a", 0.5)
    asked: dict[str, Any] = {"domains": "day", "target": "late", "predictions": "p"}
    one, other = (eqrm.evaluate(file, clip=clip, **asked) for clip in (1e-7, 0.05))
    paths = [str(tmp_path / name) for name in ("one.json", "other.json", "weighted.json")]
    weighted = replace(one, loss="log-loss weighted by the column 'count'")
    for path, found in zip(paths, (one, other, weighted), strict=True):
        Path(path).write_text(json.dumps(found.to_dict()))
    assert "clipped differently" in refused("compare", *paths[:2])
    assert "compared by one loss, got log-loss" in refused("compare", paths[0], paths[2])
    watched = refused("watch", str(tmp_path / "w"), "--start", paths[2], "--domain", "day")
    assert "log-loss weighted by the column 'count', which a watch cannot compute" in watched
    half = tmp_path / "half.parquet"
    pd.read_parquet(file)[::2].to_parquet(half)
    assert "different numbers of rows" in called("compare", file, str(half), *OPTIONS)[2]


def test_what_is_missing_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"")
    file = _predictions(tmp_path, "a", 0.5)
    code, _, err = called("compare", str(tmp_path / "m.safetensors"), file, "nowhere.csv")
    assert code == 2
    assert "'nowhere.csv' does not exist" in err
    assert "--table FILE" in err
    assert "--domain COLUMN" in err
    assert "--target COLUMN" in err
    for arguments, words in (
        ((file, "--domain", "day", "--target", "late"), "Name the column with --prediction"),
        ((file, *OPTIONS, "--format", "xml"), "format"),
        ((file, *OPTIONS, "--alpha", "2"), "alpha"),
        (("=x",), "NAME=PATH"),
    ):
        code, _, err = called("compare", *arguments)
        assert code == 2
        assert words in err


def test_other_losses_and_other_domains_are_refused(tmp_path: Path) -> None:
    losses = {"a": np.arange(40) / 40.0}
    (tmp_path / "e.json").write_text(eqrm.evaluate(domains=range(40), losses=losses).to_json())
    file = _predictions(tmp_path, "b", 0.5)
    code, _, err = called("compare", str(tmp_path / "e.json"), file, *OPTIONS)
    assert code == 2
    assert "compared by one loss" in err
    fewer = _predictions(tmp_path, "c", 0.5, number=30)
    code, _, err = called("compare", file, fewer, *OPTIONS)
    assert code == 2
    assert "same domains" in err
    frame = pd.read_parquet(file)
    frame.assign(day=frame.day + 99).to_parquet(other := tmp_path / "d.parquet")
    assert "have 0 domains in common" in called("compare", file, str(other), *OPTIONS)[2]
    out = printed_by("compare", file, fewer, *OPTIONS, "--common-domains")
    assert "over 30 domains. The domains are too few for intervals" in out
    assert "(36 needed)" in out
    assert "10 domains left out" in out
