"""``python -m studies``: list, run, report, exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from studies.__main__ import app
from studies.base import Report
from studies.outcome import Progress
from studies.registry import study_names
from typer.testing import CliRunner

from studies import __main__ as command
from studies import registry
from toy_study import Toy

RUNNER = CliRunner()


def test_the_list_names_every_reproduction() -> None:
    result = RUNNER.invoke(app, [])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == list(study_names())


def test_a_run_prints_its_checks_and_writes_results_and_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "new_study", lambda name, **settings: Toy())
    folders = ["--output", str(tmp_path / "out"), "--write-docs", str(tmp_path / "docs")]
    result = RUNNER.invoke(app, ["toy", "--quick", *folders])
    assert result.exit_code == 0
    assert "PASS  one is one: 1 (needed: 1)" in result.output
    assert "2 of 2 checks hold" in result.output
    assert "MB peak memory" in result.output
    record = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert record["size"] == "quick"
    assert (tmp_path / "docs" / "toy" / "README.md").is_file()


def test_a_failed_check_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "new_study", lambda name, **settings: Toy())
    result = RUNNER.invoke(app, ["toy", "--seed", "1", "--output", str(tmp_path)])
    assert result.exit_code == 1
    assert "FAIL  even | odd" in result.output


def test_an_interrupted_run_says_that_it_can_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(self: Toy, *arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "new_study", lambda name, **settings: Toy())
    monkeypatch.setattr(Toy, "run", interrupted)
    result = RUNNER.invoke(app, ["toy", "--output", str(tmp_path)])
    assert result.exit_code == 130
    assert "The same command does not repeat what" in result.stderr


def test_a_log_has_lines_of_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "new_study", lambda name, **settings: Toy())
    monkeypatch.setattr(command, "SECONDS_BETWEEN_LINES", 0.0)
    run, progress = Toy.run, "toy: 50%, half"

    def telling(self: Toy, output: Path, size: str, seed: int, tell: Progress) -> Report:
        tell(0.5, "half")
        return run(self, output, size, seed, tell)

    monkeypatch.setattr(Toy, "run", telling)
    result = RUNNER.invoke(app, ["toy", "--output", str(tmp_path)])
    assert progress in result.stderr
    assert progress not in result.stdout


def test_the_page_lists_every_study() -> None:
    page = (Path(registry.__file__).parent / "README.md").read_text(encoding="utf-8")
    table = page.split("| study |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == sorted(study_names())
