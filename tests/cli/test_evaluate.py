"""``eqrm evaluate`` from files to tables, and what it leaves behind."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import eqrm
from cli.commands import called, printed_by, refused
from eqrm.evaluation import write_report
from evaluation.routes import as_csv, as_parquet, world


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path: Path = as_parquet(world(), tmp_path)
    return path


PREDICTED = ["--domain", "ward", "--target", "y", "--prediction", "ERM=erm", "--prediction", "eqrm"]


def test_the_table_is_printed(parquet: Path) -> None:
    out = printed_by("evaluate", str(parquet), *PREDICTED)
    lines = out.splitlines()
    assert lines[0] == "2 models measured by the log-loss of 1,500 examples in 12 domains."
    found = eqrm.evaluate(world(), domains="ward", target="y", predictions={"ERM": "erm"})
    assert found.risk_table().cells["ERM"][0].text in out


def test_json_holds_what_python_gives(parquet: Path) -> None:
    _, out, _ = called("evaluate", str(parquet), *PREDICTED, "--format", "json")
    content = json.loads(out)
    wanted = eqrm.evaluate(
        parquet,
        domains="ward",
        target="y",
        predictions={"ERM": "erm", "eqrm": "eqrm"},
        references=None,
    )
    assert eqrm.Evaluation.from_dict(content).to_dict() == wanted.to_dict()
    assert content["risk_table"] == wanted.risk_table().to_dict()


def test_an_aggregated_table_gives_the_same_output(parquet: Path) -> None:
    frame = world()
    table = frame.groupby("hospital").loss.agg(["size", "mean", "var"]).reset_index()
    table.to_csv(parquet.parent / "domains.csv", index=False)
    raw = called("evaluate", str(parquet), "--domain", "hospital", "--loss", "model=loss")
    options = ["--aggregated", "--count", "size", "--variance", "var", "--domain", "hospital"]
    again = called("evaluate", str(parquet.parent / "domains.csv"), *options)
    assert raw[0] == 0
    assert again == raw


@pytest.mark.parametrize(
    ("form", "sign"),
    [("markdown", "|---|"), ("latex", r"\toprule"), ("csv", "model,statistic"), ("text", "*")],
)
def test_every_format_is_written_to_a_file(
    form: str,
    sign: str,
    parquet: Path,
) -> None:
    path = parquet.parent / "table.txt"
    arguments = [str(parquet), *PREDICTED, "--format", form, "--output", str(path)]
    assert called("evaluate", *arguments) == (0, "", "")
    assert sign in path.read_text(encoding="utf-8")
    assert sorted(p.name for p in parquet.parent.iterdir()) == ["measured.parquet", "table.txt"]


def test_any_levels_can_be_asked_for(parquet: Path) -> None:
    options = ["--quantiles", "0.1,0.5", "--quantiles", "0.999", "--superquantiles", ""]
    options += ["--format", "csv"]
    _, out, _ = called("evaluate", str(parquet), *PREDICTED, *options)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["level"] for row in rows[:5]] == ["", "0.1", "0.5", "0.999", ""]


def test_files_are_compared(parquet: Path) -> None:
    other = as_csv(world().assign(loss=lambda f: f.loss + 1), parquet.parent)
    arguments = ["--domain", "ward", "--loss", "A=loss", "--compare", f"B={other}"]
    _, out, _ = called("evaluate", str(parquet), *arguments, "--format", "json")
    content = json.loads(out)["models"]
    assert list(content) == ["A", "B"]
    np.testing.assert_allclose(
        content["B"]["risks"], np.array(content["A"]["risks"]) + 1, rtol=1e-12
    )


def test_figures_are_written(parquet: Path) -> None:
    folder = parquet.parent / "figures"
    names = ["--domain", "ward", "--loss", "$\\no/path$=loss", "--loss", "_hidden=erm"]
    printed_by("evaluate", str(parquet), *names, "--figures", str(folder))
    stems = ["risk-cdfs", "risk-distribution-1", "risk-distribution-2"]
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf")
    )
    assert "_hidden" in (folder / "risk-cdfs.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--domain", "wrd", "--loss", "loss"], "Did you mean 'ward'"),
        (["--domain", "ward"], "--loss COLUMN"),
        (["--domain", "ward", "--loss", "loss", "--format", "latx"], "Did you mean 'latex'"),
        (["--domain", "ward", "--loss", "loss", "--quantiles", "2"], "between 0 and 1"),
        (["--domain", "ward", "--loss", "loss", "--output", "no/such/folder/x"], "does not exist"),
        (["--domain", "ward", "--loss", "loss", "--memory", "lots"], "a size such as '2GB'"),
        (["--domain", "ward", "--loss", "loss", "--alpha", "1"], "strictly between 0 and 1"),
        (["--domain", "ward", "--loss", "loss", "--confidence", "2"], "strictly between 0 and 1"),
        (["--domain", "ward", "--loss", "loss", "--threads", "0"], "from 1 to 1,024"),
        (["--domain", "ward", "--loss", "loss", "--report", "table.txt"], "are the same file"),
        (["--domain", "ward", "--loss", "loss", "--output", "measured.parquet"], "holds the data"),
        (["--domain", "ward", "--loss", "a=loss", "--loss", "a=erm"], "models are called 'a'"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    arguments: list[str],
    complaint: str,
    parquet: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(parquet.parent)
    outputs = [] if "--output" in arguments else ["--output", "table.txt"]
    assert complaint in refused("evaluate", str(parquet), *arguments, *outputs)
    assert [p.name for p in parquet.parent.iterdir()] == ["measured.parquet"]


def test_outputs_appear_together_or_not_at_all(
    parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet.parent / "table.txt"
    path.write_text("what was there before")

    def break_down(*_: object, **__: object) -> None:
        raise eqrm.errors.SettingError("the pen broke")

    monkeypatch.setattr("eqrm.evaluation.presenting.plots.write_figures", break_down)
    arguments = [*PREDICTED, "--output", str(path), "--figures", str(parquet.parent / "f")]
    code, _, err = called("evaluate", str(parquet), *arguments)
    assert (code, err) == (2, "eqrm: the pen broke\n")
    assert path.read_text() == "what was there before"
    assert sorted(p.name for p in parquet.parent.iterdir()) == ["measured.parquet", "table.txt"]


def test_python_writes_the_page_of_the_command(parquet: Path) -> None:
    typed, own = parquet.parent / "typed.html", parquet.parent / "own.html"
    asked = ["--domain", "ward", "--loss", "loss", "--no-references", "--confidence", "0.9"]
    assert called("evaluate", str(parquet), *asked, "--report", str(typed))[0] == 0
    found = eqrm.evaluate(parquet, domains="ward", losses="loss")
    write_report(found, own, table=found.risk_table(confidence=0.9))
    (first, one), (second, other) = (_command_and_rest(page) for page in (typed, own))
    assert first.startswith("eqrm evaluate")
    assert second == "eqrm.evaluate(…) and eqrm.evaluation.write_report(…), called from Python"
    assert one == other


def _command_and_rest(page: Path) -> tuple[str, str]:
    """The command that a page says it was made by, and the page without it."""
    text = page.read_text(encoding="utf-8")
    before, _, after = text.partition('aria-label="Command">')
    command, _, rest = after.partition("</pre>")
    return command, before + rest
