"""Copy the pages of the repository into the folder that Sphinx reads.

The pages are plain Markdown that GitHub shows as well. Four things differ on the site: the
README of a folder is its index; links to files outside docs/ lead to copies of them; a page
with the line ``<!-- contents -->`` gets a table of contents of the pages that it lists (list
items and rows of tables that begin with a link); and a line ``<!-- report: FILE -->`` becomes
the report that the commands of the page wrote.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OF_THE_PROJECT = ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")
CONTENTS = "<!-- contents -->"
LISTED = re.compile(r"^(?:- |\| )\[([^\]]+)\]\(([^)#\s]+\.md)\)", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
REPORT = re.compile(r"^<!-- report: (\S+) -->$", re.MULTILINE)
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, str]:
    """Where each page of the repository lies in the site."""
    found = {ROOT / f"{name}.md": f"project/{name.lower()}.md" for name in OF_THE_PROJECT}
    for path in sorted(DOCS.rglob("*.md")):
        if not path.name.startswith("table_"):  # written beside .csv and .tex, on no page
            name = path.relative_to(DOCS).as_posix()
            found[path] = re.sub(r"(^|/)README\.md$", r"\1index.md", name)
    return found


def listed_pages(page: Path) -> dict[Path, str]:
    """The pages that a page with the mark ``<!-- contents -->`` lists, with their titles."""
    text = page.read_text(encoding="utf-8")
    if CONTENTS not in text:
        return {}
    return {
        (page.parent / link).resolve(): title.replace("`", "")
        for title, link in LISTED.findall(prose(text))
    }


def prose(text: str) -> str:
    """The page without its code blocks."""
    return FENCED.sub("", text)


def links(text: str) -> Iterator[str]:
    """The targets of the links and pictures of a page that lie in the repository."""
    for _, target, _ in LINK.findall(prose(text)):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def staged(page: Path, where: dict[Path, str]) -> tuple[str, dict[Path, str]]:
    """The text of a page in the site, and the files of the repository that it links to."""
    folder = Path(where[page]).parent
    files: dict[Path, str] = {}

    def moved(found: re.Match[str]) -> str:
        name, mark, heading = found[2].partition("#")
        if not name or "://" in found[2] or name.startswith("mailto:"):
            return found[0]
        target = (page.parent / name).resolve()
        if not target.is_file():
            raise SystemExit(f"{page.relative_to(ROOT)}: the link '{found[2]}' leads nowhere")
        there = where.get(target)
        if there is None:
            inside = DOCS if target.is_relative_to(DOCS) else ROOT
            there = target.relative_to(inside).as_posix()
            there = there if inside is DOCS else f"files/{there}"
            files[target] = there
        path = Path(os.path.relpath(there, folder)).as_posix()
        return f"{found[1]}{path}{mark}{heading}{found[3]}"

    text = page.read_text(encoding="utf-8")
    parts, end = [], 0
    for fence in FENCED.finditer(text):
        parts += [LINK.sub(moved, text[end : fence.start()]), without_last_line(fence[0])]
        end = fence.end()
    parts.append(LINK.sub(moved, text[end:]))
    return "".join(parts), files


def without_last_line(fence: str) -> str:
    """A code block without the empty line that ends the output of a doctest."""
    return re.sub(r"\n{2,}( *`{3,} *)$", r"\n\1", fence)


def toctree(page: Path, where: dict[Path, str]) -> str:
    """The table of contents of the pages that a page lists."""
    folder = Path(where[page]).parent
    entries = [
        f"{title} <{Path(os.path.relpath(where[path], folder)).as_posix().removesuffix('.md')}>"
        for path, title in listed_pages(page).items()
    ]
    return "\n".join(["", "```{toctree}", ":hidden:", "", *entries, "```", ""]) if entries else ""


def with_reports(text: str, depth: int) -> str:
    """The page with the reports that its commands wrote, framed and linked."""

    def framed(found: re.Match[str]) -> str:
        link = "../" * depth + f"reports/{found[1]}"
        return (
            f'<p><a href="{link}">Open this report on a page of its own</a></p>\n'
            f'<iframe class="report" src="{link}" title="{found[1]}" loading="lazy"></iframe>'
        )

    return REPORT.sub(framed, text)


def stage(source: Path, with_outputs: bool) -> int:
    """Write all pages, and the files that they link to, below ``source``; returns the pages.

    With outputs, pages show the reports that their commands wrote.
    """
    shutil.rmtree(source, ignore_errors=True)
    where = pages()
    for page, place in where.items():
        text, files = staged(page, where)
        target = source / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text += toctree(page, where)
        if with_outputs:
            text = with_reports(text, depth=place.count("/"))
        target.write_text(text, encoding="utf-8")
        for file, there in files.items():
            (source / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, source / there)
    return len(where)
