"""Write docs/reference.md from the docstrings of eqrm's public names.

The table of ranges in docs/training.md is written from the rules of the fields.

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
from eqrm.data.datasets.registry import DATASETS
from eqrm.predictors.registry import PREDICTORS
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.config_reading import ranges

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
TRAINING = PAGE.with_name("training.md")
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


RANGES = re.compile(r"(<!-- ranges: written by make docs -->\n).*?(<!-- end of ranges -->)", re.S)


def _in_yaml(found: re.Match[str]) -> str:
    return {"None": "null"}.get(found[0], found[0].lower())


def with_ranges(text: str) -> str:
    """The page on training, with what the rules of its fields say."""
    rows = ranges(RunConfig)
    rows |= {f"predictor.settings.{name}": rule.words for name, rule in PREDICTORS.rules.items()}
    rows |= {f"data.settings.{name}": rule.words for name, rule in DATASETS.rules.items()}
    in_yaml = {name: re.sub("None|True|False", _in_yaml, words) for name, words in rows.items()}
    lines = [f"| `{name}` | {words} |" for name, words in in_yaml.items()]
    table = "\n".join(["| field | must be |", "|---|---|", *lines])
    return RANGES.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)


def main() -> None:
    """Write the page, or compare it with ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is stale")
    arguments = parser.parse_args()
    PAGE.parent.mkdir(exist_ok=True)
    wanted = {PAGE: page(), TRAINING: with_ranges(TRAINING.read_text(encoding="utf-8"))}
    for path, text in wanted.items():
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"docs/{path.name} is not what the code says: run 'make docs'")


if __name__ == "__main__":
    main()
