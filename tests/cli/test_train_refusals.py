"""What ``eqrm train`` refuses: one line that says what is wrong, before any work."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from cli.commands import called, changed, hospitals, refuse_in_one_line

MISTAKES = [
    (["--target", "sick", "--domain", "hospital"], "no column 'sick'"),
    (
        ["--target", "ill", "--domain", "hospitl"],
        "t.csv has no column 'hospitl'. Did you mean 'hos",
    ),
    (["--target", "ill"], "--domain COLUMN is required"),
    (["--target", "ill", "--domain", "hospital", "--model", "lightgm"], "Did you mean 'lightgbm'"),
    (["--target", "ill", "--domain", "hospital", "--alpha", "1.5"], "--alpha must be a level"),
    (["--target", "ill", "--domain", "hospital", "--set", "l2=1"], "belong to one kind of model"),
    (
        [*["--target", "ill", "--domain", "hospital", "--model", "mlp"], "--set", "hiden=8"],
        "Did you mean 'hidden'",
    ),
    (["--target", "ill", "--domain", "hospital", "--set", "l2"], "--set takes NAME=VALUE"),
    (["--target", "ill", "--domain", "hospital", "--task", "x"], "Unknown task 'x'"),
    (["--target", "ill", "--domain", "hospital", "--certify", "X"], "Unknown domain 'X'"),
    (["--target", "ill", "--domain", "hospital", "--certify", "30"], "(0.43 for 30 of 70)"),
    (["--target", "ill", "--domain", "hospital", "--mean-budget", "-1"], "--mean-budget must be"),
    (
        ["--target", "ill", "--domain", "hospital", "--weather"],
        "be used with the table 'flights'",
    ),
    (["--target", "ill", "--domain", "hospital", "--confidence", "95"], "strictly between 0 and 1"),
    (["--target", "ill", "--domain", "hospital", "--task", "regression"], "a target of numbers"),
    (["--target", "hospital", "--domain", "age"], "different values"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path, options: list[str], words: str
) -> None:
    number = 210 if words == "different values" else 6
    hospitals(number=number).to_csv(tmp_path / "t.csv", index=False)
    refuse_in_one_line(tmp_path, options, words)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (changed(hospitals(number=6), "age", list(range(0, 150, 5)), None), "'age' is missing in"),
        (changed(hospitals(number=6), "ill", list(range(150)), "no"), "nothing to predict"),
        (hospitals(number=1), "There is 1 domain to train on; a quantile over domains needs"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(
    tmp_path: Path, frame: pd.DataFrame, words: str
) -> None:
    frame.to_csv(tmp_path / "t.csv", index=False)
    refuse_in_one_line(tmp_path, ["--target", "ill", "--domain", "hospital"], words)


def test_warnings_are_lines_without_source_and_each_once(tmp_path: Path) -> None:
    frame = hospitals(number=6).assign(paid="8,4", day=["30.04.2024", "01.05.2024"] * 75)
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    options = ["--target", "ill", "--domain", "hospital", "--order", "day", "--feature", "day"]
    options += ["--mean-budget", "-1"]
    code, printed, err = called("train", str(tmp_path / "t.csv"), *options)
    assert (code, printed) == (2, "")
    first, *rest = err.splitlines()
    assert first.startswith("Warning: Column 'day' holds dates written as day.month.year")
    assert "eqrm: " in rest[0]
    assert not any("Warning" in line for line in rest)
