"""Write docs/reference.md from the docstrings of eqrm's public names.

``--check`` writes nothing and fails when the page is not what the docstrings say.
"""

from __future__ import annotations

import argparse
import inspect
import re
from functools import cached_property
from pathlib import Path

import eqrm
import eqrm.errors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
OPENING = """# Reference
Written by `make docs` from the docstrings: edit those, not this page.
"""


def as_markdown(docstring: str) -> str:
    """Fence the examples and turn reStructuredText's quotes into Markdown's."""
    blocks = []
    for block in docstring.split("\n\n"):
        if block.lstrip().startswith(">>>"):
            blocks.append(f"```python\n{block}\n```")
        else:
            block = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", block)
            blocks.append(block.replace("``", "`"))
    return "\n\n".join(blocks)


def docstring_of(value: object, name: str) -> str:
    """The docstring; a public name without one is refused."""
    text = inspect.getdoc(value)
    if not text:
        raise SystemExit(f"{name} is public and has no docstring")
    return text


def signature_of(value: object) -> str:
    """The parameters without annotations, which the docstring explains in words."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in parameters
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(bare))


def members_of(cls: type) -> list[str]:
    """A line for each public method and property that the class itself defines."""
    lines = []
    for name, member in vars(cls).items():
        if name.startswith("_") or inspect.isclass(member):
            continue
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        is_value = isinstance(member, (property, cached_property))
        text = inspect.getdoc(member)
        if not text or not (is_value or inspect.isfunction(member)):
            continue
        heading = name if is_value else f"{name}{signature_of(member)}"
        first = " ".join(as_markdown(text).split("\n\n")[0].split())
        lines.append(f"- `{heading}`: {first}")
    return lines


def section(name: str, value: object, full_name: str) -> str:
    """One public name: heading, signature, docstring, members."""
    parts = [f"## {name}"]
    if callable(value):
        parts.append(f"```python\n{full_name}{signature_of(value)}\n```")
    parts.append(as_markdown(docstring_of(value, full_name)))
    if inspect.isclass(value):
        members = members_of(value)
        if members:
            parts.append("\n".join(members))
    return "\n\n".join(parts)


def errors_section() -> str:
    """Every class of eqrm.errors with the first line of its docstring."""
    rows = [
        f"- `eqrm.errors.{name}`: {docstring_of(value, name).splitlines()[0]}"
        for name, value in vars(eqrm.errors).items()
        if inspect.isclass(value) and value.__module__ == "eqrm.errors"
    ]
    opening = as_markdown(docstring_of(eqrm.errors, "eqrm.errors"))
    return "\n\n".join(["## errors", opening, "\n".join(rows)])


def page() -> str:
    """The whole page, names in alphabetical order."""
    names = sorted((name for name in eqrm.__all__ if name != "errors"), key=str.lower)
    sections = [section(name, getattr(eqrm, name), f"eqrm.{name}") for name in names]
    return "\n\n".join([OPENING.rstrip(), *sections, errors_section()]) + "\n"


def main() -> None:
    """Write the page, or compare it with ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is stale")
    arguments = parser.parse_args()
    wanted = page()
    if not arguments.check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
        return
    if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != wanted:
        raise SystemExit("docs/reference.md is not what the docstrings say: run 'make docs'")


if __name__ == "__main__":
    main()
