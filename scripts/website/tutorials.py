"""Run the tutorials: every command and every line of Python, compared with what the page shows.

    python scripts/website/tutorials.py [PAGE.md ...]

A block of ``console`` holds commands (``$ eqrm ...``, ``$ python examples/...``) with what they
print, a block of ``python`` holds lines that begin with ``>>>``. The blocks of a page run in
order in one empty folder. As in doctests, ``...`` stands for any text and the amount of white
space does not matter.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from site_pages import DOCS, ROOT, listed_pages

BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
ECHO = '; echo "exit code $?"'
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def tutorials() -> list[Path]:
    """The pages that docs/tutorials.md lists."""
    return list(listed_pages(DOCS / "tutorials.md"))


def run_command(command: str) -> tuple[int, str]:
    """Run ``eqrm ...`` or ``python FILE ...`` in this process: exit code and what it printed."""
    from eqrm import cli

    words = shlex.split(command.removesuffix(ECHO).replace("\\\n", " "))
    printed, before, code = io.StringIO(), sys.argv, 0
    with contextlib.redirect_stdout(printed):
        try:
            if words[0] == "python":
                sys.argv = words[1:]
                runpy.run_path(str(ROOT / words[1]), run_name="__main__")
            elif words[0] == "eqrm":
                sys.argv = words
                cli.main()
            else:
                raise SystemExit(f"a tutorial runs 'eqrm' and 'python', got '{command}'")
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        finally:
            sys.argv = before
    return code, printed.getvalue()


def commands_of(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it should print."""
    return [(found[1], found[2]) for found in COMMAND.finditer(block)]


def problems_of_commands(block: str) -> list[str]:
    """What the commands of a block print other than what the page shows."""
    problems = []
    for command, expected in commands_of(block):
        code, printed = run_command(command)
        if command.endswith(ECHO):
            printed += f"exit code {code}\n"
        elif code:
            problems.append(f"$ {command}\nended with exit code {code}\n{printed}")
        if not doctest.OutputChecker().check_output(expected, printed, FLAGS):
            problems.append(f"$ {command}\nprinted\n{printed}\ninstead of\n{expected}")
    return problems


def run_page(page: Path, folder: Path) -> tuple[int, list[str]]:
    """Run a page in an empty folder: how many blocks it has, and what went wrong."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    problems: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    before, variables = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    os.environ["COLUMNS"] = "100"
    try:
        for kind, block in blocks:
            if kind == "console":
                problems += problems_of_commands(block)
            elif ">>>" in block:
                test = doctest.DocTestParser().get_doctest(block, names, page.stem, str(page), 0)
                runner.run(test, out=problems.append, clear_globs=False)
                names = test.globs
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
    return len(blocks), problems


def run_pages(pages: list[Path], keep: Path | None = None) -> None:
    """Run the pages, a line each; stops at the first page that prints something else.

    Their folders are removed, or else kept below ``keep``.
    """
    for page in pages:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) if keep is None else keep / page.stem
            folder.mkdir(parents=True, exist_ok=True)
            number, problems = run_page(page, folder)
        if problems or not number:
            wrong = "\n".join(problems) or "no code block to run"
            raise SystemExit(f"{page.relative_to(ROOT)}:\n{wrong}")
        seconds = time.perf_counter() - begin
        print(f"==> {page.relative_to(ROOT)}: {number} blocks ran ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    run_pages([Path(name).resolve() for name in sys.argv[1:]] or tutorials())
