"""docs/tomorrows-flights.md: its prose has the numbers that its commands print.

That the commands print them is a test of tests/website/.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tomorrows-flights.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_every_number_in_the_prose_is_in_what_was_printed() -> None:
    prose = re.sub(r"^```console\n.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    numbers = re.findall(r"\d+\.\d+(?:e\+\d+)?|\d+ of \d+|\d{2,}", prose.partition("## Jan")[2])
    assert len(numbers) > 15
    printed = "".join(BLOCKS)
    assert [number for number in numbers if number not in printed] == []
