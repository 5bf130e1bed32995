"""``eqrm plan``: how many domains must I collect?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import called, printed_by, refused

PAGE = Path(__file__).resolve().parents[2] / "docs" / "certificates.md"


def test_the_first_line_answers_and_the_last_says_what_to_type() -> None:
    out = printed_by("plan", "--alpha", ".9", "--confidence", ".95")
    answer, tighter, _, following = out.splitlines()
    assert answer.startswith("Collect at least 29 domains that no model is trained or chosen on")
    assert "90% of new domains then have at most the largest of their risks" in answer
    assert "46 the second largest of their risks, 89 the 5th largest, 116 their 0.95-" in tighter
    assert following.startswith("Next: eqrm evaluate predictions.csv --domain DOMAIN")


def test_the_plan_on_the_page_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = called("plan", "--alpha", ".9", "--confidence", ".95")
    printed = "\n".join(line.rstrip() for line in out.rstrip().splitlines())
    assert len(printed.splitlines()) == 4
    assert printed in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        ("20", "20 domains are too few: 29 are needed. The most that they can bound is 86.08% of"),
        ("29", "29 domains are enough: the largest of their risks is the bound"),
        ("60", "60 domains are enough: the second largest of their risks is the bound"),
    ],
)
def test_domains_that_there_are_get_their_own_line(domains: str, words: str) -> None:
    _, out, _ = called("plan", "--domains", domains)
    assert out.splitlines()[1].startswith(words)


def test_the_bound_of_the_paper_is_told_when_asked_for() -> None:
    out = printed_by("plan", "--verbose")
    assert "quantiles up to 0.9 (DKW)" in out
    assert "The paper's bound: Theorem D.1 with 29 domains is vacuous" in out
    assert "16,241" in out


def test_json_holds_the_same_numbers() -> None:
    code, out, _ = called("plan", "--json", "--domains", "28")
    content = json.loads(out)
    assert code == 0
    assert content["domains"] == 29
    assert "28 domains are too few" in content["in_hand"]
    assert content["paper"]["vacuous"] is True


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--alpha", "1"], "strictly between 0 and 1"),
        (["--alpha", "most"], "Got 'most'."),
        (["--confidence", "95"], "strictly between 0 and 1"),
        (["--domains", "1"], "at least 2"),
        (["--slack", "0.3"], "slack"),
        (["--models", "0"], "models"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], complaint: str) -> None:
    assert complaint in refused("plan", *arguments)
