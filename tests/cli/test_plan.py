"""``eqrm plan``: how many domains must I collect?"""

from __future__ import annotations

import json
import sys

import pytest

from eqrm import cli


def run_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``eqrm plan ARGUMENTS``."""
    monkeypatch.setattr(sys, "argv", ["eqrm", "plan", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


def test_the_table_answers_in_its_first_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_plan(monkeypatch, capsys, "--alpha", ".9", "--confidence", ".95")
    assert code == 0
    assert out.startswith("Collect at least 29 held-out domains")
    assert "Theorem D.1 with 29 domains is vacuous" in " ".join(out.split())
    assert "16,241" in out
    last = " ".join(out.split()).partition("What to do: ")[2]
    assert last.startswith("hold out 29 domains or more, predict for their rows, and run eqrm eval")


def test_json_holds_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_plan(monkeypatch, capsys, "--json", "--domains", "28", "--bandwidth", "0.01")
    content = json.loads(out)
    assert code == 0
    assert content["domains"] == 29
    assert "28 domains are too few" in content["in_hand"]
    assert content["paper"]["vacuous"] is True
    assert content["paper"]["bias"] == pytest.approx(0.00797885)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--alpha", "1"], "strictly between 0 and 1"),
        (["--alpha", "most"], "Got 'most'."),
        (["--confidence", "95"], "strictly between 0 and 1"),
        (["--domains", "1"], "at least 2"),
        (["--slack", "0.3"], "slack"),
        (["--slack", "1e-300"], "slack must be from (1 − alpha)/1000 = 0.0001 to"),
        (["--predictors", "0"], "predictors"),
        (["--predictors", "1" + 400 * "0"], "an integer from 1 to 1,000,000"),
        (["--confidence", "1e-300"], "and at least 1e-9"),
        (["--bandwidth", "-1"], "bandwidth"),
    ],
)
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    code, out, err = run_plan(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("eqrm: ")
    assert err.count("\n") == 1
    assert complaint in err
