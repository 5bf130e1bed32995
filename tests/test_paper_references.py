"""References to the paper name the section or proposition that says what is claimed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXTS = sorted(
    path
    for place in ("README.md", "ARCHITECTURE.md", "docs", "examples", "src")
    for path in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))
    if path.suffix in {".md", ".py", ".yaml"}
)


def references(pattern: str, about: str = "") -> dict[str, set[str]]:
    """What a pattern captures in each file, of files that mention ``about``."""
    found = {path: path.read_text(encoding="utf-8") for path in TEXTS}
    return {
        path.relative_to(ROOT).as_posix(): set(re.findall(pattern, text))
        for path, text in found.items()
        if about in path.stem.replace("-", "_") and re.search(pattern, text)
    }


def test_equal_risks_at_high_levels_are_proposition_a5() -> None:
    """Version 0.1 cited Proposition A.2."""
    cited = references(r"[Pp]roposition\s+(A\.\d+)")
    assert "src/eqrm/distributions/bandwidths.py" in cited
    assert {number for numbers in cited.values() for number in numbers} == {"A.5"}


def test_colored_mnist_is_section_6_1() -> None:
    """Version 0.1 cited section 6.2."""
    cited = references(r"section\s+(6\.\d)", about="colored_mnist")
    assert set(cited) >= {"docs/colored-mnist.md", "examples/colored_mnist.yaml"}
    assert {number for numbers in cited.values() for number in numbers} == {"6.1"}
