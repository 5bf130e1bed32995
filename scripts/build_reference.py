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


def section(full_name: str, value: object) -> str:
    """One public name: heading, signature, docstring, members."""
    parts = [f"## {full_name}"]
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
    return "\n\n".join(["## eqrm.errors", opening, "\n".join(rows)])


def public_names() -> dict[str, object]:
    """Every public name once, by its shortest path: those of eqrm, then those of its packages."""
    places = {"eqrm": eqrm} | {
        f"eqrm.{name}": getattr(eqrm, name)
        for name in sorted(eqrm.__all__)
        if inspect.ismodule(getattr(eqrm, name)) and name != "errors"
    }
    found: dict[str, object] = {}
    for place, module in places.items():
        for name in sorted(module.__all__, key=lambda name: (name.lower(), name)):
            value = getattr(module, name)
            if not inspect.ismodule(value) and not any(value is known for known in found.values()):
                found[f"{place}.{name}"] = value
    return {n: v for n, v in found.items() if inspect.isclass(v) or inspect.isroutine(v)}


def page() -> str:
    """The whole page: what people type daily first, then package by package."""
    sections = [section(name, value) for name, value in public_names().items()]
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
