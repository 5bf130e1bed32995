"""The formats of tables: the same numbers in all of them, and names that do no harm."""

from __future__ import annotations

import csv
import io
import re

import pytest

from eqrm.sweeps import sweep_tables
from eqrm.sweeps.selection import QuantileSelection, TrainingDomainValidation
from eqrm.sweeps.tables.cells import SweepTables
from eqrm.sweeps.tables.formats import FORMATS
from sweeps.made_records import checkpoint, record

RULES = {"training-domain": TrainingDomainValidation(), "quantile": QuantileSelection()}


def found(objective: str = "EQRM", domains: tuple[str, str] = ("a", "b")) -> SweepTables:
    """Accuracies .5 and .75 in two trials; the second trial of the second domain is missing."""
    records = []
    for held_out, trial, value in ((0, 0, 0.5), (0, 1, 0.75), (1, 0, 0.5)):
        name, other = domains[held_out], domains[1 - held_out]
        measured = checkpoint(0, {other: 1.0}, {name: value}, {other: 0.5}, {name: 1 - value})
        records.append(record(measured, held_out=(name,), trial=trial, objective=objective))
    return sweep_tables(records, RULES)


def written(form: str, tables: SweepTables | None = None, selected: bool = False) -> str:
    return FORMATS[form](tables or found(), selected)


def test_text_has_aligned_columns_notes_and_missing_runs() -> None:
    assert written("text").startswith(
        "toy: accuracy (%) on held-out domains. Selection: training-domain validation, best "
        "checkpoint\n"
        "objective           a      b  average\n"
        "EQRM       62.5 ± 8.8  50.0†    50.0†\n"
    )
    end = written("text").split("\n\n")[-2:]
    assert end[0].startswith("Tables of 3 runs. Mean ± standard error over trials (s/√n, divisor n")
    assert end[1] == "Missing runs:\ntoy, EQRM, held out b, trial 1: draw 0"
    assert "Selected runs" not in written("text")
    assert "toy-EQRM-a-0-1" in written("text", selected=True)


def test_markdown_and_latex_have_the_same_cells() -> None:
    assert "| EQRM | 62.5 ± 8.8 | 50.0† | 50.0† |" in written("markdown")
    assert "|---|---:|---:|---:|" in written("markdown")
    latex = written("latex", selected=True)
    assert r"EQRM & 62.5 $\pm$ 8.8 & 50.0$^\dagger$ & 50.0$^\dagger$ \\" in latex
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 5
    assert "% toy, EQRM, held out b, trial 1: draw 0" in latex


def test_csv_has_all_digits_and_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(written("csv"))))
    first = rows[0]
    assert (first["table"], first["objective"], first["column"]) == ("accuracy", "EQRM", "a")
    assert (float(first["value"]), first["trials"], first["complete"]) == (0.625, "2", "1")
    assert float(first["standard_error"]) == pytest.approx(0.125 / 2**0.5, rel=1e-14)
    assert [row["column"] for row in rows if row["table"] == "missing"] == [
        "toy, EQRM, held out b, trial 1: draw 0"
    ]
    chosen = list(csv.DictReader(io.StringIO(written("csv", selected=True))))
    assert [row["run"] for row in chosen][:2] == ["toy-EQRM-a-0-0", "toy-EQRM-a-0-1"]


@pytest.mark.parametrize("name", FORMATS)
def test_names_are_data(name: str) -> None:
    odd = r"<script>a()</script>|$\alpha$&%#~^" + "\n\x1b"
    page = FORMATS[name](found("_hidden$", (odd, "b\nc")), True)
    if name == "markdown":
        assert r"\<script>" in page
        assert r"\_hidden$" in page
        lines = [line for line in page.splitlines() if line.startswith("| ")]
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert widths == {5, 10, 12}  # accuracies, quantiles, selected runs
    if name == "latex":
        assert r"\$\textbackslash{}alpha\$\&\%\#" in page
        assert all(
            line.startswith("%")
            for line in page.splitlines()
            if "held out" in line[:60] and "toy," in line
        )
    if name != "csv":
        assert "\x1b" not in page
