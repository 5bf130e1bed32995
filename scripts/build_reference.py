"""Write docs/reference.md and the pages of docs/reference/ from eqrm's docstrings.

docs/reference/ranges.md is written from the rules of the fields of a configuration.

``--check`` writes nothing and fails when a page is not what the docstrings say.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import typing
from functools import cached_property
from pathlib import Path
from typing import Any

from reference_commands import commands, commands_page
from reference_tasks import TASKS, task_of

import eqrm
import eqrm.errors
from eqrm.data.datasets.registry import DATASETS
from eqrm.predictors.registry import PREDICTORS
from eqrm.training.runs.config import RunConfig

DOCS = Path(__file__).resolve().parent.parent / "docs"
OPENING = """# Reference
Every public name of the package, by what it is for. Names load on first use: `import eqrm` is \
quick, and `eqrm.evaluation`, `eqrm.objectives` and the other packages need no import of \
their own. What is not listed here is private and may change in any version.

Written by `make pages` from the docstrings: edit those, not this page.
"""

SECTION = re.compile(
    r"^(Args|Attributes|Returns|Raises):\n((?:    .*(?:\n|$)|\n(?=    ))+)", re.MULTILINE
)
ITEM = re.compile(r"^    (\S[^:\n]*): ", re.MULTILINE)
HEADINGS = {"Args": "Parameters", "Attributes": "Attributes"}


def as_markdown(docstring: str) -> str:
    """Fence examples, list parameters, and turn reStructuredText's quotes into Markdown's."""
    blocks = []
    for block in SECTION.sub(as_list, docstring).split("\n\n"):
        if block.lstrip().startswith(">>>"):
            blocks.append(f"```python\n{block}\n```")
        else:
            block = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", block)
            blocks.append(block.replace("``", "`"))
    return "\n\n".join(blocks)


def as_list(found: re.Match[str]) -> str:
    """A section of a docstring, such as Args, as a list with an item per name."""
    items = ITEM.sub(lambda item: f"- **{escaped(item[1])}**: ", found[2])
    lines = [
        line.removeprefix("    ") if line.startswith("     ") else line
        for line in items.rstrip().splitlines()
    ]
    return f"**{HEADINGS.get(found[1], found[1])}**\n\n" + "\n".join(lines) + "\n"


def escaped(name: str) -> str:
    """The name of a parameter, with the characters that Markdown would take for emphasis."""
    return re.sub(r"([*_])", r"\\\1", name)


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


def call_of(full_name: str, value: object) -> str:
    """The signature as it is called, over several lines where it is long."""
    call = f"{full_name}{signature_of(value)}"
    if len(call) <= 88:
        return call
    given = []
    for part in re.split(r", (?=[*\w]+(?:=|,|\)$)|\*)", signature_of(value)[1:-1]):
        given.append(f"    {part},")
    return "\n".join([f"{full_name}(", *given, ")"])


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
        parts.append(f"```python\n{call_of(full_name, value)}\n```")
    parts.append(as_markdown(docstring_of(value, full_name)))
    if inspect.isclass(value):
        members = members_of(value)
        if members:
            parts.append("\n".join(members))
    return "\n\n".join(parts)


def errors_page() -> str:
    """Every class of eqrm.errors with the first line of its docstring."""
    rows = [
        f"- `eqrm.errors.{name}`: {docstring_of(value, name).splitlines()[0]}"
        for name, value in vars(eqrm.errors).items()
        if inspect.isclass(value) and value.__module__ == "eqrm.errors"
    ]
    opening = as_markdown(docstring_of(eqrm.errors, "eqrm.errors"))
    return "\n\n".join(["# Errors", opening, "\n".join(rows)]) + "\n"


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


def names_by_task() -> dict[str, dict[str, object]]:
    """The public names of each task, in the order of the tasks."""
    found: dict[str, dict[str, object]] = {task.page: {} for task in TASKS}
    for name, value in public_names().items():
        found[task_of(name).page][name] = value
    return found


def anchors(names: list[str]) -> dict[str, str]:
    """The anchor that GitHub and MyST make of each heading of a page."""
    seen: dict[str, int] = {}
    found = {}
    for name in names:
        slug = re.sub(r"[^\w\- ]", "", name.lower())
        found[name] = f"{slug}-{seen[slug]}" if slug in seen else slug
        seen[slug] = seen.get(slug, 0) + 1
    return found


def overview(by_task: dict[str, dict[str, object]]) -> str:
    """The first page: the tasks, and under each its names with a line about each."""
    parts = [OPENING.rstrip()]
    pages = [f"- [{task.title}](reference/{task.page}.md): {task.says}" for task in TASKS]
    pages.append("- [Errors](reference/errors.md): what is raised, and when")
    pages.append("- [Commands](reference/commands.md): every command with its options")
    pages.append(
        "- [Ranges](reference/ranges.md): what the fields of a run's configuration must be"
    )
    parts.append("\n".join([*pages, "<!-- contents -->"]))
    for task in TASKS:
        names = by_task[task.page]
        anchor = anchors(list(names))
        rows = [
            f"| [`{name}`](reference/{task.page}.md#{anchor[name]}) | {summary(name, value)} |"
            for name, value in names.items()
        ]
        parts.append("\n".join([f"## {task.title}", "| name | |", "|---|---|", *rows]))
    typed = [
        f"[`{name}`](reference/commands.md#{name.replace(' ', '-')})" for name, _ in commands()
    ]
    parts.append(f"## Commands\n{', '.join(typed)}")
    return "\n\n".join(parts) + "\n"


def summary(name: str, value: object) -> str:
    """The first paragraph of the docstring on one line, for a cell of a table."""
    first = as_markdown(docstring_of(value, name)).split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


def pages() -> dict[Path, str]:
    """Every page of the reference, by its path."""
    by_task = names_by_task()
    found = {DOCS / "reference.md": overview(by_task)}
    for task in TASKS:
        sections = [section(name, value) for name, value in by_task[task.page].items()]
        opening = f"# {task.title}\n{task.opening}"
        text = "\n\n".join([opening, *sections]) + "\n"
        found[DOCS / "reference" / f"{task.page}.md"] = text
    found[DOCS / "reference" / "errors.md"] = errors_page()
    found[DOCS / "reference" / "commands.md"] = commands_page()
    found[DOCS / "reference" / "ranges.md"] = ranges_page()
    return found


def _in_yaml(found: re.Match[str]) -> str:
    return {"None": "null"}.get(found[0], found[0].lower())


def ranges(kind: Any, path: str = "") -> dict[str, str]:
    """What each field of a configuration must be, by its path, for fields that have a rule."""
    found: dict[str, str] = {}
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        key = field.metadata.get("in_files", field.name)
        if key is None:
            continue
        inside = f"{path}.{key}" if path else key
        if (rule := field.metadata.get("rule")) is not None:
            found[inside] = rule.words
        for part in typing.get_args(hints[field.name]) or (hints[field.name],):
            listed = typing.get_origin(part) is list
            each = typing.get_args(part)[0] if listed else part
            if dataclasses.is_dataclass(each) and each.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                found |= ranges(each, f"{inside}[…]" if listed else inside)
    return found


def ranges_page() -> str:
    """What the rules of the fields of a configuration say."""
    rows = ranges(RunConfig)
    rows |= {f"predictor.settings.{name}": rule.words for name, rule in PREDICTORS.rules.items()}
    rows |= {f"data.settings.{name}": rule.words for name, rule in DATASETS.rules.items()}
    in_yaml = {name: re.sub("None|True|False", _in_yaml, words) for name, words in rows.items()}
    fields: dict[str, list[str]] = {}
    for name, words in in_yaml.items():
        fields.setdefault(words, []).append(f"`{name}`")
    lines = [f"| {words} | {', '.join(names)} |" for words, names in fields.items()]
    table = "\n".join(["| must be | fields |", "|---|---|", *lines])
    return (
        "# Ranges of a configuration\nWhat the fields of [a run](../training.md) must be; anything "
        f"else is refused before training begins.\n\n{table}\n"
    )


def main() -> None:
    """Write the pages, or compare them with ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when a page is stale")
    arguments = parser.parse_args()
    wanted = pages()
    superfluous = set((DOCS / "reference").glob("*.md")) - set(wanted)
    stale = sorted(superfluous | {p for p, text in wanted.items() if written(p) != text})
    if arguments.check and stale:
        names = ", ".join(str(path.relative_to(DOCS.parent)) for path in stale)
        raise SystemExit(f"not what the code says: {names}. Run 'make pages'")
    if arguments.check:
        return
    (DOCS / "reference").mkdir(exist_ok=True)
    for path in superfluous:
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


def written(path: Path) -> str | None:
    """What the page says now."""
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    main()
