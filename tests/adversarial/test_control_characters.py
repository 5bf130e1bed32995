"""Names of files, columns, domains and values that a terminal or a spreadsheet would obey.

Nothing that a command prints or writes as text contains a control character that came from data.
Rows of the user that are given back keep theirs in Parquet files alone.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from adversarial.hostile_names import (
    FORMULAS,
    assert_clean,
    assert_clean_folder,
    assert_guarded,
    hostile,
)
from cli.commands import called
from eqrm.errors import DataFileError, EqrmWarning
from eqrm.text import csv_text, printable
from eqrm.training.runs.config import RunConfig


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Rows of 24 hostile domains, with a hostile column of hostile values."""
    names = hostile(getattr(request, "param", 0))
    rng = np.random.default_rng(0)
    domains = np.repeat([next(names) for _ in range(24)], 8)
    label = rng.integers(0, 2, len(domains))
    column = next(names)
    frame = pd.DataFrame({"site": domains, "late": label, "x": rng.normal(size=len(domains))})
    frame[column] = rng.choice([next(names), next(names)], len(domains))
    frame["p"] = (0.2 + 0.6 * label + 0.1 * rng.random(len(domains))).round(3)
    frame["q"] = 0.5
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, index=False)
    return path


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 25))]


FORMATS = [
    *("text", "csv"),
    *(pytest.param(each, marks=pytest.mark.full) for each in ("markdown", "latex", "json")),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("table", SEEDS, indirect=True)
def test_what_evaluate_prints_and_writes(table: Path, form: str, tmp_path: Path) -> None:
    common = ["evaluate", str(table), "--domain", "site", "--target", "late"]
    common += ["--prediction", "p"]
    file, page = tmp_path / f"out.{form}", tmp_path / "page.html"
    extra = ["--report", str(page)] if form == "text" else []
    code, out, err = called(*common, "--format", form, "--output", str(file), *extra)
    assert code == 0, err
    assert_clean(out + err, form)
    assert_clean(file.read_text(encoding="utf-8"), form)
    if form == "text":
        assert_clean(page.read_text(encoding="utf-8"), "page")
        for wrong in (["--domain", "sites"], ["--target", "x"], ["--prediction", "site"]):
            code, out, err = called(*common[:2], *wrong, *_without(common, wrong))
            assert code == 2
            assert_clean(out + err, str(wrong))
    if form == "json":
        state = tmp_path / "late.watch"
        begin = ["--start", str(file), "--alpha", "0.5", "--confidence", "0.5"]
        columns = ["--domain", "site", "--target", "late", "--prediction", "p", "--order", "x"]
        for options in ([*begin, *columns], ["--new", str(table)]):
            _, out, err = called("watch", str(state), *options)
            assert_clean(out + err, "watch")
        for path in tmp_path.glob("late*"):
            assert_clean(path.read_text(encoding="utf-8"), path.name)


def _without(common: list[str], wrong: list[str]) -> list[str]:
    """The options of a command but for one."""
    pairs = zip(common[2::2], common[3::2], strict=True)
    return [part for name, value in pairs if name != wrong[0] for part in (name, value)]


@pytest.mark.parametrize("table", SEEDS[:4], indirect=True)
def test_what_train_predict_and_recalibrate_print_and_write(table: Path, tmp_path: Path) -> None:
    path, out = table, tmp_path / "out"
    common = ["--domain", "site", "--target", "late", "--drop", "p,q", "--model", "linear"]
    code, printed, err = called("train", str(path), *common, "--alpha", "0.5", "--output", str(out))
    assert code == 0, err
    assert_clean(printed + err, "train")
    assert_clean_folder(out, at_least=4)
    model = next((out / "models").iterdir())
    code, printed, err = called(
        "predict", str(model), str(path), "--output", str(tmp_path / "p.csv")
    )
    assert_clean(printed + err, "predict")
    assert_guarded(tmp_path / "p.csv", "predict")
    assert "made harmless for spreadsheets" in " ".join(printed.split())
    options = ["--target", "late", "--prediction", "p", "--domain", "site", "--alpha", "0.5"]
    saved = tmp_path / "correction.json"
    code, printed, err = called("recalibrate", str(path), *options, "--save", str(saved))
    assert_clean(printed + err, "recalibrate")
    assert_clean(saved.read_text(encoding="utf-8"), "correction")
    for ending in ("csv", "parquet"):
        file = tmp_path / f"r.{ending}"
        given = ["--correction", str(saved), "--output", str(file)]
        code, printed, err = called("recalibrate", str(path), *given)
        assert code == 0, err
        assert_clean(printed + err, "recalibrate")
        assert ("made harmless" in printed) is (ending == "csv")
    assert_guarded(tmp_path / "r.csv", "recalibrate")
    stored = pd.read_parquet(path)
    others = stored.columns.drop("p")
    pd.testing.assert_frame_equal(pd.read_parquet(file)[others], stored[others])


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_files_plans_and_configurations_with_hostile_names(seed: int, tmp_path: Path) -> None:
    names = hostile(seed)
    folder = tmp_path / "files"
    folder.mkdir()
    for _ in range(3):
        (folder / f"{next(names).replace(chr(0), '').replace('/', '')}.csv").write_text("a\n1\n")
    plan = {"datasets": [next(names)], "objectives": [{next(names): 1}], next(names): {}}
    config = {"data": {"dataset": next(names), "test": [next(names)]}, next(names): 1}
    for name, content in (("plan.yaml", plan), ("config.yaml", config)):
        (tmp_path / name).write_text(json.dumps(content))
    for arguments in (
        ["evaluate", str(folder), "--domain", "filename", "--target", "y", "--prediction", "p"],
        ["train", str(folder), "--domain", "filename", "--target", "y"],
        ["sweep", "run", str(tmp_path / "plan.yaml"), "--check"],
        ["sweep", "check", str(tmp_path / "plan.yaml")],
        ["train-network", str(tmp_path / "config.yaml")],
        ["data", "info", "x", "--data-root", str(folder)],
        ["data", "list", "--data-root", str(folder)],
        ["table", str(folder)],
        ["watch", str(folder)],
        ["predict", str(folder), str(folder)],
        ["recalibrate", str(folder), "--prediction", "p", "--target", "y", "--domain", "d"],
    ):
        _, out, err = called(*arguments)
        assert out + err
        assert_clean(out + err, " ".join(arguments))


@pytest.mark.parametrize("seed", range(5))
def test_an_argument_with_control_characters_is_refused(seed: int) -> None:
    code, out, err = called("evaluate", f"{next(hostile(seed))}\x1b[31m.csv")
    assert (code, out) == (2, "")
    assert "control characters" in err
    assert_clean(err, "argument")


@pytest.mark.parametrize("seed", range(5))
def test_errors_and_warnings_are_printable_whatever_they_name(seed: int) -> None:
    name = next(hostile(seed))
    assert_clean(str(DataFileError(f"No column {name}. Choose another.")), "error")
    with pytest.warns(EqrmWarning) as caught:
        warnings.warn(f"The column {name} is empty.", EqrmWarning, stacklevel=1)
    assert_clean(str(caught[0].message), "warning")
    assert str(DataFileError("a:\n  - b")) == "a:\n  - b"


@pytest.mark.parametrize("seed", range(5))
def test_json_and_yaml_read_back_what_was_escaped(seed: int) -> None:
    name = next(hostile(seed))
    assert json.loads(printable(json.dumps({name: 1}, ensure_ascii=False))) == {name: 1}
    content = {"data": {"dataset": "table", "test": [name]}, "predictor": {"name": "mlp"}}
    config = RunConfig.read({**content, "steps": 3, "phases": "single"})
    assert_clean(config.to_yaml(), "yaml")
    assert yaml.safe_load(config.to_yaml())["data"]["test"] == [name]


def test_cells_of_csv_are_no_formulas() -> None:
    rows = [[formula, f"{formula}\t", 3, -0.5, "-0.5", "1e5", "+2", "a"] for formula in FORMULAS]
    for line, formula in zip(csv_text(rows).splitlines(), FORMULAS, strict=True):
        assert line == f"'{formula},'{formula}\\u0009,3,-0.5,-0.5,1e5,+2,a"


@pytest.mark.parametrize("table", SEEDS[:4], indirect=True)
def test_what_backtest_prints_and_writes(table: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(table)
    frame["day"] = frame.groupby("site", sort=False).ngroup()
    frame = frame.rename(columns={"p": next(hostile(9)).replace("=", "")})
    frame["p"] = 0.5
    frame.to_parquet(table, index=False)
    common = ["backtest", str(table), "--domain", "site", "--order", "day", "--target", "late"]
    plan = ["--prediction", "p", "--certify", "10", "--judge", "3", "--quantiles", ".5"]
    code, out, err = called(*common, *plan, "--output", str(tmp_path / "backtest"))
    assert code == 0, err
    assert_clean(out + err, "backtest")
    assert_clean_folder(tmp_path / "backtest", at_least=4)
    code, out, err = called(*common, "--prediction", "none", "--output", str(tmp_path / "b"))
    assert code == 2
    assert_clean(out + err, "backtest refuses")
