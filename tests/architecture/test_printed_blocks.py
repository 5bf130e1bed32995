"""What pages say that ``eqrm train`` prints is what tests/record holds of it, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDED = ("train", "train-in-time")
PAGES = ("README.md", "docs/train.md", "docs/flights.md")
FOLDER = re.compile(r"\S*(?=/(report\.html|summary\.txt))|(?<=eqrm predict )\S+")


def lines_of(text: str) -> list[str]:
    """Lines without what differs: spaces, and the folder of the output."""
    return [" ".join(FOLDER.sub("FOLDER", line).split()) for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_are_as_printed(page: str) -> None:
    recorded: set[str] = set()
    for name in RECORDED:
        text = (REPOSITORY / "tests" / "record" / f"{name}.txt").read_text(encoding="utf-8")
        recorded |= set(lines_of(text))
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = [b for b in re.findall(r"```text\n(.*?)```", text, re.DOTALL) if "9 in 10" in b]
    assert blocks
    told = [line for block in blocks for line in lines_of(block) if line and line != "…"]
    assert [line for line in told if line not in recorded] == []
