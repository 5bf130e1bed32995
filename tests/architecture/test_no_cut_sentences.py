"""No module tests or cuts a sentence of ours: what it needs to know is a field of its own.

What is found by reading the code: methods that cut or test, ``in``, and regular expressions, on the
text of an error of ours that was caught, on a warning's message, and on what is called a message,
a sentence, a headline or words. Texts that pass through a variable of another name are not found.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import eqrm
from eqrm import errors

SOURCE = Path(eqrm.__file__).parent
CUTTING = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"),
    *("split", "rsplit", "splitlines", "replace", "find", "index", "count"),
}
CALLED = ("message", "sentence", "headline", "told", "verdict", "words", "warning", "problem")
"""The last word of names that hold texts for people."""
OURS = {name for name in vars(errors) if name.endswith(("Error", "Warning"))}


def last_word(node: ast.expr) -> str:
    """The last word of the name of a variable, a field or a function that is called."""
    if isinstance(node, ast.Call):
        return last_word(node.func)
    name = {ast.Name: "id", ast.Attribute: "attr"}.get(type(node))
    text = getattr(node, name) if name else ""
    return "" if text.isupper() else text.rsplit("_", 1)[-1]


class Cuts(ast.NodeVisitor):
    """Collects the lines that test or cut a text of ours."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.errors: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Inside a class of errors, ``self`` is one."""
        ours = any(last_word(base).endswith(("Error", "Warning")) for base in node.bases)
        self._inside("self" if ours else None, node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Inside, the name is that of an error."""
        kinds = {each.id for each in ast.walk(node.type or node) if isinstance(each, ast.Name)}
        self._inside(node.name if kinds & OURS else None, node)

    def _inside(self, name: str | None, node: ast.AST) -> None:
        self.errors += [name] if name else []
        self.generic_visit(node)
        self.errors = self.errors[:-1] if name else self.errors

    def _is_text(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Subscript):  # error.args[0]
            return last_word(node.value) == "args" and self._is_error(node.value)
        if isinstance(node, ast.Call) and last_word(node) in ("str", "repr") and node.args:
            return self._is_error(node.args[0]) or self._is_text(node.args[0])
        return last_word(node) in CALLED

    def _is_error(self, node: ast.expr) -> bool:
        inner = node.value if isinstance(node, ast.Attribute) else node
        return isinstance(inner, ast.Name) and inner.id in self.errors

    def visit_Call(self, node: ast.Call) -> None:
        """Methods that cut or test, and functions of ``re``."""
        if isinstance(node.func, ast.Attribute):
            of = node.func.value
            cut = node.func.attr in CUTTING and self._is_text(of)
            regular = isinstance(of, ast.Name) and of.id == "re"
            if cut or (regular and any(map(self._is_text, node.args))):
                self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """``in`` and ``not in``."""
        for op, it in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn) and self._is_text(it):
                self.lines.append(node.lineno)
        self.generic_visit(node)


def cuts(source: str) -> list[int]:
    """The lines that test or cut a text of ours."""
    found = Cuts()
    found.visit(ast.parse(source))
    return found.lines


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    f()\nexcept SettingError as error:\n    x = 'too few' in str(error)",
        "try:\n    f()\nexcept SettingError as error:\n    x = error.args[0].partition(' to ')",
        "x = warning.message.startswith('Column')",
        "x = found.sentence.split(': ')[1]",
        "class OwnError(ValueError):\n    def f(self):\n        return str(self).replace('a', 'b')",
        "x = re.sub('--(.*)', '', message)",
    ],
)
def test_a_cut_sentence_is_found(code: str) -> None:
    assert cuts(code)


def test_no_module_tests_or_cuts_a_sentence_of_ours() -> None:
    found = {
        f"{path.relative_to(SOURCE).as_posix()}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in cuts(path.read_text(encoding="utf-8"))
    }
    assert found == set()
