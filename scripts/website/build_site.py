"""Build the documentation site: ``make docs``.

    python scripts/website/build_site.py [--output site] [--pages-only]

Runs the tutorials, writes the reports of the gallery, copies the pages, runs Sphinx with
warnings as errors and follows all links of the result. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from site_links import check_links
from site_pages import DOCS, REPORT, ROOT, stage
from tutorials import run_pages, tutorials

HERE = Path(__file__).resolve().parent


def write_reports(extra: Path) -> None:
    """Run the gallery, and put the reports that it shows below ``extra``."""
    gallery = DOCS / "gallery.md"
    with tempfile.TemporaryDirectory() as folder:
        run_pages([gallery], keep=Path(folder))
        for name in REPORT.findall(gallery.read_text(encoding="utf-8")):
            (extra / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder) / "gallery" / name, extra / "reports" / name)


def run_sphinx(source: Path, html: Path) -> None:
    """Build the pages; a warning is an error."""
    try:
        from sphinx.cmd.build import main as sphinx
    except ImportError as error:
        raise SystemExit(f"{error}: run 'make docs', or pip install -e '.[docs]'") from error
    settings = ["-c", str(HERE), "-d", str(html.parent / "doctrees")]
    settings += ["-D", f"html_extra_path={html.parent / 'extra'}"]
    if sphinx(["-b", "html", "-q", "-W", "--keep-going", *settings, str(source), str(html)]):
        raise SystemExit("the site was not built: see the warnings above")


def main() -> None:
    """Build the site, and print how many pages and links it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "site", help="folder of the site")
    parser.add_argument(
        "--pages-only", action="store_true", help="leave out the tutorials and the reports"
    )
    arguments = parser.parse_args()
    begin = time.perf_counter()
    output: Path = arguments.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    (output / "extra").mkdir(parents=True)
    if not arguments.pages_only:
        run_pages(tutorials())
        write_reports(output / "extra")
    number = stage(output / "source", with_outputs=not arguments.pages_only)
    print(f"==> {number} pages: Sphinx")
    run_sphinx(output / "source", output / "html")
    found = check_links(output / "html")
    (output / "links-to-other-sites.txt").write_text(
        "".join(f"{link}\n" for link in sorted(found.outside)), encoding="utf-8"
    )
    for problem in found.problems:
        print(problem)
    print(f"==> links: {found.line} (listed in {output.name}/links-to-other-sites.txt)")
    if found.problems:
        raise SystemExit(1)
    print(f"==> {output / 'html' / 'index.html'} ({time.perf_counter() - begin:.0f} s)")


if __name__ == "__main__":
    main()
