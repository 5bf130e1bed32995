"""``make size``: what is counted, and what is told when a part is over its budget."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import size  # noqa: E402

BUDGETS = "[tool.eqrm.size]\nsrc-lines = {src}\nsrc-files = 2\npages-kB = 2\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Five lines in src, two in tests, 1.5 kB of pages, and 3 and 2 kB that programs write."""
    contents = {
        "src/package/first.py": "1\n2\n3\n",
        "src/package/second.py": "1\n\n",
        "src/package/notes.txt": "1\n2\n",
        "tests/test_first.py": "1\n2\n",
        "docs/page.md": "x" * 1500,
        "docs/reference/names.md": "x" * 3000,
        "docs/reproductions/study/README.md": "x" * 2000,
    }
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_check_passes_at_the_budget_and_fails_a_line_beyond(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "pyproject.toml").write_text(BUDGETS.format(src=5))
    found = {part.name: (part.files, part.size) for part in size.measured(checkout)}
    assert (found["src"], found["tests"], found["python"]) == ((2, 5), (1, 2), (3, 7))
    assert (found["pages"], found["reproductions"], found["reference"]) == ((1, 2), (1, 2), (1, 3))
    assert size.main([], checkout) == 0
    assert capsys.readouterr().out.split("\n")[1].split() == ["src", "2", "5", "lines", "5", "0"]
    assert size.main(["--check"], checkout) == 0
    (checkout / "src" / "package" / "third.py").write_text("1\n")
    assert size.main(["--check"], checkout) == 1
    said = capsys.readouterr().err
    assert "src has 6 lines, 1 more than its budget of 5" in said
    assert "raise src-lines under [tool.eqrm.size]" in said
    assert "src has 3 files, 1 more than its budget of 2" in said
