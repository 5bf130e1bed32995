"""Messages name settings as the reader gives them: the library knows no options of commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import eqrm

SOURCE = Path(eqrm.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")
OTHER_COMMANDS = ("sweeps/engines/slurm.py", "sweeps/engines/slurm_queue.py", "sweeps/engines/ray_")
"""They write command lines for other programs."""

DECLARED = ("tabular/plan.py", "tabular/recalibrating/plan.py")
"""They hold the help of the options of two commands."""
TYPED = re.compile(r"eqrm [a-z-]+ [^;)\"]*")
"""A command to type, with its options."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that are not documentation, with their lines."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # outer nodes first
        if isinstance(node, ast.Expr):  # docstrings, also of attributes
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            parts = [p.value if isinstance(p, ast.Constant) else "…" for p in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and node not in skipped:
            yield node.lineno, str(node.value)


def test_no_module_outside_the_command_line_writes_an_option() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(("cli/", *DECLARED, *OTHER_COMMANDS)):
            continue
        found += [
            f"{name}:{line}: {text}"
            for line, text in texts(path)
            if OPTION.search(TYPED.sub("", text))
        ]
    assert not found
