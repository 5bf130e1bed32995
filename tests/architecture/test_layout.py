"""How the source is laid out: names that say something, files of one concept, no circles."""

from __future__ import annotations

import ast
import re
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import networkx
import pytest

pytestmark = pytest.mark.xdist_group("layout")  # the source is parsed once
REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "eqrm"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = [path for path in FILES if not path.name.startswith("__")]
EMPTY_NAMES = {"utils", "util", "misc", "helpers", "helper", "common", "lib", "tools", "stuff"}


def relative(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_name_explains_nothing() -> None:
    parts = {part.removesuffix(".py") for path in FILES for part in path.relative_to(SOURCE).parts}
    assert len(parts) > 100
    assert parts & EMPTY_NAMES == set()


def test_a_file_stays_below_400_lines_and_the_usual_one_is_neither_short_nor_long() -> None:
    assert {relative(p): lines_of(p) for p in FILES if lines_of(p) > 400} == {}
    assert 100 <= statistics.median(map(lines_of, MODULES)) <= 300


def test_a_folder_holds_at_most_16_modules() -> None:
    folders = defaultdict(list)
    for path in MODULES:
        folders[relative(path.parent)].append(path.name)
    assert {name: len(files) for name, files in folders.items() if len(files) > 16} == {}


def test_a_function_stays_readable() -> None:
    too_long = {}
    for path in FILES:
        for node in statements(parsed(path)):
            if isinstance(node, ast.FunctionDef) and (length := code_lines(node, path)) > 60:
                too_long[f"{relative(path)}: {node.name}"] = length
    assert too_long == {}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node at any depth; expressions, which are most of it, hold no statements."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements(child)


def code_lines(node: ast.FunctionDef, path: Path) -> int:
    """Lines of code in a function, without blank lines, comments and its docstring."""
    start = node.body[0].end_lineno if ast.get_docstring(node, clean=False) else node.lineno
    if (node.end_lineno or 0) - (start or 0) <= 60:
        return 0
    with path.open("rb") as file:
        rows = {
            token.start[0]
            for token in tokenize.tokenize(file.readline)
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
        }
    return len([row for row in rows if (start or 0) < row <= (node.end_lineno or 0)])


def test_the_tests_mirror_the_folders_of_the_source() -> None:
    folders = {path.relative_to(SOURCE).parts[0] for path in FILES if path.parent != SOURCE}
    assert folders - {path.name for path in (REPOSITORY / "tests").iterdir()} == set()


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports inside functions, and for type checkers only, count too."""
    found = grimp.build_graph("eqrm", cache_dir=None)
    imports = networkx.DiGraph(
        (module, other)
        for module in found.modules
        for other in found.find_modules_directly_imported_by(module)
    )
    assert imports.number_of_edges() > 500
    circles = [sorted(c) for c in networkx.strongly_connected_components(imports) if len(c) > 1]
    assert circles == []


def test_a_public_name_stands_for_one_thing() -> None:
    """Commands are functions named after what they run; everything else has a name of its own."""
    places = defaultdict(set)
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] == "cli":
            continue
        for node in parsed(path).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                places[node.name].add(relative(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_source_imports_names_from_where_they_are_defined() -> None:
    """The lists of public names load lazily, which would hide who imports whom."""
    lazy = {
        "eqrm" if path.parent == SOURCE else f"eqrm.{relative(path.parent).replace('/', '.')}"
        for path in SOURCE.rglob("__init__.pyi")
    }
    through = []
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module in lazy:
                folder = SOURCE.parent.joinpath(*node.module.split("."))
                names = [a.name for a in node.names if not list(folder.glob(f"{a.name}*"))]
                through += [f"{relative(path)}: from {node.module} import {n}" for n in names]
    assert through == []


def test_the_page_on_the_architecture_has_a_line_for_every_folder() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(page) <= 8_000
    tree = page.split("## The tree")[1].split("```")[1]
    listed: list[str] = []
    open_folders: list[tuple[int, str]] = []
    for line in tree.splitlines():
        names = re.match(r"( *)((?:[\w/]+/ *)+)", line[:43])
        if names is None:
            continue
        depth = len(names[1])
        open_folders = [each for each in open_folders if each[0] < depth]
        above = "".join(f"{name}/" for _, name in open_folders)
        here = [each.rstrip("/") for each in names[2].split()]
        listed += [above + name for name in here]
        open_folders.append((depth, here[0]))
    packages = {f"src/eqrm/{relative(path.parent)}" for path in MODULES if path.parent != SOURCE}
    assert packages == {each for each in listed if each.startswith("src/eqrm/")}


def test_the_page_on_the_architecture_has_the_layers_that_are_enforced() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = page.split("## Who may import whom")[1].split("```")[1].split("\n")
    settings = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    enforced = re.findall(r'^    "(.+)",$', settings.split("\nlayers = [")[1].split("]")[0], re.M)
    assert list(filter(None, told)) == [re.sub(r"[()]", "", layer) for layer in enforced]


def test_values_are_escaped_for_html_in_one_place() -> None:
    assert [relative(p) for p in FILES if re.search(r"\bhtml import\b", p.read_text("utf-8"))] == [
        "markup.py"
    ]
