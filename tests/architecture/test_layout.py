"""How the source is laid out: names that say something, files of one concept."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "eqrm"
FILES = sorted(SOURCE.rglob("*.py"))
EMPTY_NAMES = {"utils", "util", "misc", "helpers", "helper", "common", "lib", "tools", "stuff"}


def relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_there_are_source_files_to_look_at() -> None:
    assert len(FILES) > 5


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_name_that_explains_nothing(path: Path) -> None:
    assert not EMPTY_NAMES & {part.removesuffix(".py") for part in path.relative_to(SOURCE).parts}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_stays_below_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_function_stays_readable(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    too_long = {node.name: code_lines(node, path) for node in functions}
    assert {name: length for name, length in too_long.items() if length > 60} == {}


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> int:
    """Lines of code in a function, without blank lines, comments and its docstring."""
    start = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
    with path.open("rb") as file:
        rows = {
            token.start[0]
            for token in tokenize.tokenize(file.readline)
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
        }
    return len([row for row in rows if (start or 0) < row <= (node.end_lineno or 0)])


def test_the_tests_mirror_the_source() -> None:
    folders = {path.parent.relative_to(SOURCE) for path in FILES} - {Path()}
    missing = [str(folder) for folder in folders if not (REPOSITORY / "tests" / folder).is_dir()]
    assert missing == []
