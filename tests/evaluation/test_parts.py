"""Parts of the rows, measured apart and merged: the numbers of one evaluation of all rows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from cases import in_full
from cli.commands import called
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation import Evaluation, evaluate_part, merge_parts
from eqrm.evaluation.parts import EvaluatedPart
from eqrm.files.checked_json import write_checked_json

ROWS, DOMAINS = 3000, 40


def rows(seed: int = 0) -> pd.DataFrame:
    """Domains of very different sizes, losses far from 0, and predictions of several kinds."""
    rng = np.random.default_rng(seed)
    domain = np.minimum(rng.geometric(0.08, ROWS), DOMAINS)
    label = rng.integers(0, 2, ROWS)
    p = np.clip(rng.beta(2, 2, ROWS) * 0.6 + 0.3 * label, 0.01, 0.99)
    other = rng.random((ROWS, 2))
    return pd.DataFrame(
        {
            "day": domain,
            "loss": 1e6 + rng.normal(size=ROWS) * (1 + domain),
            "late": label,
            "p": p,
            "q": np.clip(p + rng.normal(size=ROWS) * 0.05, 0.01, 0.99),
            "delay": 20.0 + label + rng.normal(size=ROWS),
            "guess": 20.0 + p,
            "p_0": other[:, 0] / other.sum(axis=1),
            "p_1": other[:, 1] / other.sum(axis=1),
        }
    )


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five files: domains are split over them, one file holds a single domain, one a single row."""
    frame, folder = rows(), tmp_path_factory.mktemp("shards")
    alone = frame[frame.day == frame.day.mode()[0]].head(30)
    rest = frame.drop(alone.index)
    cuts = [rest.iloc[:700], rest.iloc[700:701], rest.iloc[701:1900], rest.iloc[1900:], alone]
    paths = []
    for number, part in enumerate(cuts):
        paths.append(folder / f"shard-{number}.parquet")
        part.to_parquet(paths[-1])
    return paths


def same_numbers(merged: Evaluation, whole: Evaluation) -> bool:
    assert list(merged.models) == list(whole.models)
    assert (merged.loss, merged.bounds) == (whole.loss, whole.bounds)
    for name, expected in whole.models.items():
        found = merged[name]
        assert found.domains == expected.domains
        assert found.counts.tolist() == expected.counts.tolist()
        np.testing.assert_allclose(found.risks, expected.risks, rtol=1e-14)
        np.testing.assert_allclose(found.variances, expected.variances, rtol=1e-9)
    return True


CASES: dict[str, dict[str, Any]] = {
    "losses": {"losses": "loss"},
    "log-loss": {"target": "late", "predictions": {"ERM": "p", "EQRM": "q"}},
    "brier of classes": {"target": "late", "predictions": "p_{class}", "metric": "brier"},
    "0-1": {"target": "late", "predictions": "p", "metric": "0-1"},
    "squared": {"target": "delay", "predictions": "guess", "metric": "squared"},
    "clipped": {"target": "late", "predictions": "p", "clip": 0.1},
}


@pytest.mark.parametrize("case", ["log-loss", *in_full(*(c for c in CASES if c != "log-loss"))])
def test_merged_parts_give_the_numbers_of_one_evaluation(
    shards: list[Path], tmp_path: Path, case: str
) -> None:
    columns = CASES[case]
    parts = []
    for number, shard in enumerate(shards):
        evaluate_part(shard, domains="day", **columns).write(tmp_path / f"{number}.json")
        parts.append(EvaluatedPart.read(tmp_path / f"{number}.json"))
    whole = eqrm.evaluate(list(shards), domains="day", **columns, references=True)
    merged = merge_parts(parts)
    assert same_numbers(merged, whole)
    assert whole.references is not None
    assert merged.references is not None
    constants = [name for name in whole.references.risks if name.startswith("constant")]
    assert list(merged.references.risks) == constants
    assert bool(constants) == (case != "losses")
    for name in constants:
        np.testing.assert_allclose(
            merged.references.risks[name].risks, whole.references.risks[name].risks, rtol=1e-12
        )
    if constants:
        assert "which merged parts do not hold" in merged.references.notes[0]
    order = [3, 0, 4, 2, 1]
    assert same_numbers(merge_parts([parts[i] for i in order]), whole)


def test_a_table_per_domain_and_files_per_predictor_have_parts_too(
    shards: list[Path], tmp_path: Path
) -> None:
    paths = []
    for number, shard in enumerate(shards):
        grouped = pd.read_parquet(shard).groupby("day").loss
        table = grouped.agg(n="count", mean="mean", variance="var").reset_index()
        paths.append(tmp_path / f"{number}.csv")
        table.to_csv(paths[-1], index=False)
    parts = [evaluate_part(path, domains="day", aggregated=True) for path in paths]
    whole = eqrm.evaluate(list(shards), domains="day", losses="loss")
    found = merge_parts(parts)["model"]
    assert found.counts.tolist() == whole["loss"].counts.tolist()
    np.testing.assert_allclose(found.risks, whole["loss"].risks, rtol=1e-13)
    pairs = [{"a": shard, "b": shard} for shard in shards]
    merged = merge_parts([evaluate_part(pair, domains="day", losses="loss") for pair in pairs])
    assert merged["a"].risks.tolist() == merged["b"].risks.tolist()


def test_a_part_may_have_no_prediction_that_is_right_but_not_the_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d,y,c\n1,cat,dog\n2,dog,cat\n")
    (tmp_path / "b.csv").write_text("d,y,c\n1,cat,cat\n2,dog,cat\n")
    given = {"domains": "d", "target": "y", "predictions": "c", "metric": "0-1"}
    wrong, right = (evaluate_part(tmp_path / name, **given) for name in ("a.csv", "b.csv"))
    assert merge_parts([wrong, right])["c"].risks.tolist() == [0.5, 1.0]
    with pytest.raises(DomainDataError, match="no prediction equals its label"):
        merge_parts([wrong])


def test_what_does_not_belong_together_is_refused_with_all_problems(
    shards: list[Path], tmp_path: Path
) -> None:
    both = {"domains": "day", "target": "late", "predictions": {"ERM": "p", "EQRM": "q"}}
    first = evaluate_part(shards[0], **both)
    again = evaluate_part(shards[0], **both)
    copy = shutil.copy(shards[0], tmp_path / "copy.parquet")
    copied = evaluate_part(copy, **both)
    lacking = evaluate_part(shards[2], **{**both, "predictions": {"ERM": "p"}})
    other = evaluate_part(shards[3], **both, metric="brier")
    for twice in (again, copied):
        with pytest.raises(DomainDataError, match=r"in two parts, shard-0\.parquet and .*once"):
            merge_parts([first, twice])
    for pair in ([first, lacking], [lacking, first]):
        with pytest.raises(DomainDataError, match=r"shard-2\.parquet has no model 'EQRM'"):
            merge_parts(pair)
    with pytest.raises(DomainDataError, match=r"measures metric 'brier', but .* 'log-loss'"):
        merge_parts([first, other])
    with pytest.raises(DomainDataError) as refusal:
        merge_parts([first, again, lacking, other])
    assert all(words in str(refusal.value) for words in ("once", "no model", "brier"))
    with pytest.raises(SettingError, match="No part was given"):
        merge_parts([])
    with pytest.raises(DomainDataError, match="At least two domains"):
        merge_parts([evaluate_part(shards[4], domains="day", losses="loss")])
    with pytest.raises(SettingError, match="measured on files, got DataFrame"):
        evaluate_part(rows(), domains="day", losses="loss")
    with pytest.raises(SettingError, match="must be the name of a loss"):
        evaluate_part(shards[0], **{**both, "metric": lambda y, p: abs(y - p)})


def test_all_problems_of_parts_in_files_are_listed_at_once(
    shards: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, shard in (("b", 0), ("c", 0), ("d", 2)):
        evaluate_part(shards[shard], domains="day", losses="loss").write(folder / f"{name}.json")
    whole = (folder / "d.json").read_text(encoding="utf-8")
    (folder / "a.json").write_text(whole[:-30], encoding="utf-8")  # the first of them
    (folder / "e.json").write_text("[]", encoding="utf-8")
    write_checked_json(folder / "f.json", "eqrm part of an evaluation 2", {"labels": None})
    part = replace(EvaluatedPart.read(folder / "d.json"), sources={"other": "other"})
    replace(part, measures={**part.measures, "domains": ["week"]}).write(folder / "g.json")
    code, _, err = called("evaluate", "--merge", str(folder))
    assert code == 2
    for words in ("a.json is not", "in two parts, b.json and c.json", "e.json is not", "f.json is"):
        assert words in err
    assert "g.json measures domains ['week']" in err
    with pytest.raises(DomainDataError, match=r"a\.json is not .* partial"):
        merge_parts([folder / "a.json"])
    (tmp_path / "empty").mkdir()
    given = [str(tmp_path / "empty"), str(tmp_path / "none.json")]
    code, _, err = called("evaluate", "--merge", *given)
    assert (code, f"The folder {given[0]!r} has no part" in err) == (2, True)
    assert f"There is no part {given[1]!r}. Give files that --partial wrote." in err


def test_the_command_measures_parts_and_merges_them(shards: list[Path], tmp_path: Path) -> None:
    given = ["--domain", "day", "--loss", "loss"]
    chosen = [shards[2], shards[4]]
    for number, shard in enumerate(chosen):
        part = str(tmp_path / f"part-{number}.json")
        code, out, _ = called("evaluate", str(shard), *given, "--partial", part)
        assert (code, out.endswith(f"{part}\n")) == (0, True)
    assert out.startswith("30 examples in 1 domain: ")
    table = tmp_path / "table.txt"
    texts = []
    for arguments in (["--merge", str(tmp_path)], [*map(str, chosen), *given]):
        assert called("evaluate", *arguments, "--output", str(table))[0] == 0
        texts.append(table.read_text())
    assert texts[0] == texts[1]
    first = str(tmp_path / "part-0.json")
    code, _, err = called("evaluate", "--merge", first, first)
    assert (code, "Give every file once" in err) == (2, True)
    code, _, err = called("evaluate", "--merge", first, "--domain", "day", "--loss", "x")
    assert (code, "Leave out --domain, --loss." in err) == (2, True)
    code, _, err = called("evaluate", "--merge", str(tmp_path / "none-*.json"))
    assert (code, "There is no part" in err) == (2, True)
    given += ["--partial", first, "--output", str(table)]
    code, _, err = called("evaluate", str(shards[0]), *given)
    assert (code, "Leave out --output" in err) == (2, True)
    code, _, err = called("evaluate", str(shards[0]), "--loss", "loss")
    assert (code, "--domain COLUMN" in err) == (2, True)


def test_the_mean_of_numbers_is_the_same_of_parts_with_a_row_of_each_domain(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shop = np.tile(np.arange(30), 4)  # the files below have one row of each shop
    frame = pd.DataFrame({"shop": shop, "sold": rng.normal(20.0, 3.0, 120), "guess": 20.0})
    named = {"domains": "shop", "target": "sold", "predictions": "guess", "metric": "squared"}
    paths = [tmp_path / f"{number}.parquet" for number in range(4)]
    for number, path in enumerate(paths):
        frame.iloc[30 * number : 30 * (number + 1)].to_parquet(path)
    parts = [evaluate_part(path, **named, references=True) for path in paths]
    assert all(part.labels.domains == part.models["guess"].domains for part in parts)
    both = eqrm.evaluate(frame, **named, references=True), merge_parts(parts)
    whole, merged = (each.references.risks["constant (mean)"].risks for each in both)  # type: ignore[union-attr]
    np.testing.assert_allclose(merged, whole, rtol=1e-12)
