"""Follow every link of the built site, without a network.

A link inside the site must lead to a file that exists and, where it names a place on the page,
to an element with that id. Links to other sites are counted and listed, not fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
NOT_FOLLOWED = ("mailto", "data", "javascript")


class Page(HTMLParser):
    """The links of a page, and the ids that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the link and the id of an element."""
        values = dict(attrs)
        self.ids |= {name for name in (values.get("id"), values.get("name")) if name}
        if link := values.get(LINKS.get(tag, "")):
            self.links.append((tag, link))


@dataclass
class Links:
    """What a site links to."""

    pages: int = 0
    inside: int = 0
    outside: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The result in one line."""
        return (
            f"{self.pages} pages, {self.inside:,} links inside the site, "
            f"{len(self.problems)} of them broken; {len(self.outside)} links to other sites, "
            "not followed"
        )


def check_links(site: Path) -> Links:
    """Follow the links of all pages below ``site``."""
    files = [path.resolve() for path in sorted(site.rglob("*.html"))]
    # The theme leaves a template among its own files.
    pages = {path: Page(path) for path in files if (site / "_static").resolve() not in path.parents}
    found = Links(pages=len(pages))
    for path, page in pages.items():
        for tag, link in page.links:
            parts = urlsplit(link)
            if parts.scheme in NOT_FOLLOWED:
                continue
            if parts.scheme or parts.netloc:
                found.outside.add(link)
                # A page that loads something from elsewhere does not work offline.
                if tag not in ("a", "link"):
                    found.problems.append(f"{path.relative_to(site.resolve())}: loads {link}")
                continue
            found.inside += 1
            for problem in problems_of(path, parts.path, parts.fragment, pages):
                found.problems.append(f"{path.relative_to(site.resolve())}: {link} ({problem})")
    return found


def problems_of(path: Path, name: str, fragment: str, pages: dict[Path, Page]) -> Iterator[str]:
    """Why a link of the page at ``path`` leads nowhere, if so."""
    target = (path.parent / unquote(name)).resolve() if name else path
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        yield "no such file"
    elif fragment and target in pages and unquote(fragment) not in pages[target].ids:
        yield "no such place on the page"
