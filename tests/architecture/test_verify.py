"""The list of checks of ``make verify``: it loads, and pages name checks that exist."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
COMMAND = re.compile(r"verify/run\.py --only ([a-z0-9. -]+)`")


@pytest.fixture(scope="module")
def choose() -> Any:
    """``choose`` of verify/run.py, with all checks loaded."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT))
    try:
        from verify.run import choose, load_checks

        load_checks()
    finally:
        sys.path[:] = before
    return choose


def test_every_check_that_a_page_names_is_listed(choose: Callable[[list[str]], list[Any]]) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = sorted({name for names in COMMAND.findall(text) for name in names.split()})
    assert len(named) > 1
    listed = [check.name for check in choose(named)]
    assert all(re.fullmatch(r"[a-z]+\.[a-z-]+", name) for name in listed)
    assert len(listed) >= len(named)


def test_every_check_holds_one_promise_and_the_page_has_the_last_figures(
    choose: Callable[[list[str]], list[Any]],
) -> None:
    from verify.promises import LAST_RUN, PROMISES, last_run, page_of_promises

    named = [name for promise in PROMISES for name in promise.checks]
    assert len(named) == len(set(named))
    listed = {check.name for check in choose([])}
    assert sorted(set(named) - listed) == []
    assert sorted(listed - set(named)) == [], "name the promise of this check in verify/promises.py"
    assert sorted(set(last_run()) - listed) == []
    recorded = LAST_RUN.read_text(encoding="utf-8")
    assert str(ROOT) not in recorded
    assert str(Path.home()) not in recorded
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    assert page_of_promises() in page, "make pages"
