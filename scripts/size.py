"""How much there is: lines of Python, files, Markdown; with the budgets of pyproject.toml.

    python scripts/size.py [--check]

``--check`` prints only what is over its budget, and fails then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PYTHON = {
    "src": ("src",),
    "studies": ("studies",),
    "tests": ("tests",),
    "rest": ("scripts", "verify", "benchmarks", "examples"),
}
"""Folders whose Python is counted together."""
TABLE = "[tool.eqrm.size]"


@dataclass(frozen=True)
class Part:
    """What is counted together: in lines or kB, whichever its budget is in."""

    name: str
    files: int
    size: int
    unit: str

    @property
    def field(self) -> str:
        """What its budget is called in pyproject.toml."""
        return f"{self.name}-{self.unit}"


def python_in(root: Path, folders: Iterable[str]) -> list[Path]:
    """Every file of Python below the folders."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def markdown_in(root: Path) -> dict[str, list[Path]]:
    """What people write, what studies write, and what is written from docstrings."""
    docs = root / "docs"
    reference = {docs / "reference.md", *(docs / "reference").rglob("*.md")}
    reproductions = {*(docs / "reproductions").rglob("*.md")}
    pages = {*docs.rglob("*.md"), *root.glob("*.md"), *(root / "studies").glob("*.md")}
    return {
        "pages": sorted(pages - reference - reproductions),
        "reproductions": sorted(reproductions),
        "reference": sorted(path for path in reference if path.is_file()),
    }


def measured(root: Path) -> list[Part]:
    """Every part, as ``find src -name '*.py' | xargs cat | wc -l`` counts lines."""
    python = {name: python_in(root, folders) for name, folders in PYTHON.items()}
    python["python"] = [path for files in python.values() for path in files]
    found = [
        Part(name, len(files), sum(path.read_bytes().count(b"\n") for path in files), "lines")
        for name, files in python.items()
    ]
    for name, files in markdown_in(root).items():
        size = sum(path.stat().st_size for path in files)
        found.append(Part(name, len(files), -(-size // 1000), "kB"))
    return found


def budgets_of(root: Path) -> dict[str, int]:
    """The largest size of each part that has a budget."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(settings["tool"]["eqrm"]["size"])


def problems(parts: Iterable[Part], budgets: Mapping[str, int]) -> list[str]:
    """A sentence for each part over its budget."""
    found = []
    for part in parts:
        for field, count, unit in (
            (part.field, part.size, part.unit),
            (f"{part.name}-files", part.files, "files"),
        ):
            most = budgets.get(field)
            if most is not None and count > most:
                found.append(
                    f"{part.name} has {count:,} {unit}, {count - most:,} more than its budget of "
                    f"{most:,}. Remove or merge what is no longer needed ('make size' shows all "
                    f"parts); if the growth is meant, raise {field} under {TABLE} of "
                    "pyproject.toml and say why in the commit."
                )
    return found


def table(parts: Iterable[Part], budgets: Mapping[str, int]) -> str:
    """The parts in aligned columns."""
    head = f"{'':13} {'files':>6} {'size':>14} {'budget':>9} {'left':>8}"
    rows = [head]
    for part in parts:
        most = budgets.get(part.field)
        limit = "" if most is None else f"{most:>9,} {most - part.size:>8,}"
        size = f"{part.size:,} {part.unit:5}"
        rows.append(f"{part.name:13} {part.files:>6,} {size:>14} {limit}".rstrip())
    return "\n".join(rows)


NOTES = (
    "src, studies, tests, rest (scripts, verify, benchmarks, examples) and python, which is all of "
    "them:\nlines of Python. pages: Markdown that people write; reproductions: written by studies; "
    "reference:\nwritten from docstrings."
)


def main(given: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the table, or check the budgets with ``--check``; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when a part is over its budget")
    arguments = parser.parse_args(given)
    parts, budgets = measured(root), budgets_of(root)
    wrong = problems(parts, budgets)
    if not arguments.check:
        print(f"{table(parts, budgets)}\n\n{NOTES}")
        return 0
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
