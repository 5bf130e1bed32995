"""The pages of the documentation site: all are listed, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "website"))

import site_pages  # noqa: E402
import tutorials  # noqa: E402

PAGES = site_pages.pages()


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and MyST make of a page's headings."""
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(
        r"^#+ (.+)$", site_pages.prose(page.read_text("utf-8")), re.MULTILINE
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def test_every_page_is_in_exactly_one_table_of_contents() -> None:
    listed = Counter(path for page in PAGES for path in site_pages.listed_pages(page))
    first = ROOT / "docs" / "README.md"
    missing = [str(page.relative_to(ROOT)) for page in PAGES if page != first and not listed[page]]
    assert missing == [], "list it on a page with the line <!-- contents -->"
    assert [str(page) for page, times in listed.items() if times > 1] == []
    assert set(listed) < set(PAGES)


def test_links_between_pages_lead_to_files_and_headings_that_exist() -> None:
    headings = {page: anchors(page) for page in PAGES}
    broken, followed = [], 0
    for page in PAGES:
        for link in site_pages.links(page.read_text(encoding="utf-8")):
            name, _, heading = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            wrong_place = bool(heading) and heading not in headings.get(target, {heading})
            followed += 1
            if not target.is_file() or wrong_place:
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []
    assert followed > 300


def test_a_page_is_staged_with_its_links_and_its_contents(tmp_path: Path) -> None:
    assert site_pages.stage(tmp_path, with_outputs=True) == len(PAGES)
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "Reproductions <reproductions/index>" in index
    train = (tmp_path / "train.md").read_text(encoding="utf-8")
    assert "(project/readme.md#from-a-table)" in train
    readme = (tmp_path / "project" / "readme.md").read_text(encoding="utf-8")
    assert "(../concepts.md)" in readme
    assert "(../files/CITATION.cff)" in readme
    assert (tmp_path / "files" / "CITATION.cff").is_file()
    gallery = (tmp_path / "gallery.md").read_text(encoding="utf-8")
    assert gallery.count("<iframe") == 3


@pytest.mark.parametrize("page", tutorials.tutorials(), ids=lambda page: page.stem)
@pytest.mark.full
def test_tutorials_print_what_they_show(page: Path, tmp_path: Path) -> None:
    number, problems = tutorials.run_page(page, tmp_path)
    assert number > 1
    assert problems == []


@pytest.mark.full
def test_the_site_builds_without_warnings_and_its_links_work(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed: make docs")
    program = str(ROOT / "scripts" / "website" / "build_site.py")
    command = [sys.executable, program, "--pages-only", "--output", str(tmp_path / "site")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"links inside the site, 0 of them broken", run.stdout)
    for name in ("index", "reference/objectives", "tutorials/first-table", "search"):
        assert (tmp_path / "site" / "html" / f"{name}.html").is_file()
