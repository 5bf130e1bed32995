"""Write the figures of the last recorded ``make verify`` into docs/promises.md.

``--check`` writes nothing and fails when the page is not what is recorded.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from verify.promises import page_of_promises  # noqa: E402

PAGE = ROOT / "docs" / "promises.md"
WRITTEN = re.compile(
    r"(<!-- promises: written by make pages -->\n).*?(<!-- end of promises -->)", re.DOTALL
)


def page() -> str:
    """The page as it should be."""
    old = PAGE.read_text(encoding="utf-8")
    return WRITTEN.sub(lambda found: f"{found[1]}{page_of_promises()}\n\n{found[2]}", old)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if page() != PAGE.read_text(encoding="utf-8"):
            raise SystemExit("docs/promises.md is not what verify/last_run.json says: make pages")
    else:
        PAGE.write_text(page(), encoding="utf-8")
