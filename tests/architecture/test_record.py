"""The record of what must not change: it is whole, and what differs from it is found."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from studies.registry import new_study, study_names

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "record"
sys.path[:0] = [str(ROOT / "scripts" / "record"), str(ROOT / "scripts")]

import comparing  # noqa: E402
import recording  # noqa: E402
import running  # noqa: E402
import scenes  # noqa: E402
from reference_commands import commands  # noqa: E402

FILES = sorted(RECORD.glob("*.txt"))


def lines_that_differ(expected: str, got: str) -> list[tuple[int, str | None, str | None]]:
    found = comparing.differences("file.txt", expected, got)
    return [(each.line, each.expected, each.got) for each in found]


@pytest.fixture
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code gives what the record holds."""

    def made_anew(names: list[str], workers: int) -> Iterator[Any]:
        for name in names:
            yield recording.Made(name, recording.recorded(RECORD, name), "", "")

    monkeypatch.setattr(recording, "made_anew", made_anew)


@pytest.mark.usefixtures("unchanged")
def test_one_digit_of_one_table_fails_the_check_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, text = "evaluate", (RECORD / "evaluate.txt").read_text(encoding="utf-8")
    (tmp_path / "evaluate.txt").write_text(text, encoding="utf-8")
    assert recording.check([name], 1, tmp_path) == 0
    capsys.readouterr()
    row = next(line for line in text.split("\n") if len(re.findall(r" 0\.\d\d\d\b", line)) > 2)
    wrong = re.sub(r"(0\.\d\d)(\d)", lambda it: it[1] + str((int(it[2]) + 1) % 10), row, count=1)
    (tmp_path / "evaluate.txt").write_text(text.replace(row, wrong, 1), encoding="utf-8")
    assert recording.check([name], 1, tmp_path) == 1
    printed = capsys.readouterr().out
    place = text.split("\n").index(row) + 1
    assert f"evaluate.txt, line {place}\n  expected: {wrong}\n  got:      {row}" in printed
    assert "Lines that differ from the record: evaluate (1)." in printed
    assert "make record NAMES='evaluate'" in printed


def test_only_numbers_with_many_digits_may_differ_by_rounding() -> None:
    assert lines_that_differ("risk 0.12345678", "risk 0.12345679") == []
    assert lines_that_differ("risk: 1.23456789e-17,", "risk: 0.0,") == []
    assert lines_that_differ("risk 0.12345678", "risk 0.12345778") != []
    assert lines_that_differ("risk 0.12345", "risk 0.12346") != []
    assert lines_that_differ("12345678 rows", "12345679 rows") != []
    assert lines_that_differ("off by 1.2e-14", "off by 9.1e-15") == []
    assert lines_that_differ("off by 1.2e-14", "off by 0") != []
    assert lines_that_differ("risk 0.12345678", "loss 0.12345678") != []


def test_every_command_is_recorded() -> None:
    typed = {" ".join(c.split()[:3]) for s in scenes.SCENES.values() for c in s.commands}
    typed |= {" ".join(command.split()[:2]) for command in typed}
    # The short form of a command of a group counts.
    typed |= {"eqrm sweep plan"} & {c.replace("sweep.yaml", "plan") for c in typed}
    listed = {name for name, _ in commands()} - {"eqrm reproduce"}
    assert len(listed) > 15
    assert sorted(listed - typed) == []


def test_every_study_that_needs_no_download_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EQRM_DATA", raising=False)
    left_out = set(study_names()) - set(running.OFFLINE_STUDIES)
    assert set(running.OFFLINE_STUDIES) < set(study_names())
    assert sorted(name for name in left_out if not new_study(name).missing("quick")) == []


def test_the_record_has_a_file_for_everything_and_is_small() -> None:
    assert sorted(path.stem for path in FILES) == sorted(running.entries())
    assert sum(path.stat().st_size for path in FILES) < 1_500_000
