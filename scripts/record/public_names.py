"""Every public name with its parameters, fields and methods; every command with its options."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
WIDTH = 100


class _Words:
    """Text that is printed as it is where a value is expected."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _annotation(given: Any) -> Any:
    if given is inspect.Parameter.empty:
        return given
    return _Words(given if isinstance(given, str) else inspect.formatannotation(given))


def _default(given: Any) -> Any:
    if given is inspect.Parameter.empty:
        return given
    return _Words(re.sub(r" at 0x[0-9a-f]+", "", repr(given)))


def parameters_of(value: Any) -> str:
    """The parameters as they are written, a line each where they are many."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    each = [
        one.replace(annotation=_annotation(one.annotation), default=_default(one.default))
        for one in found.parameters.values()
        if one.name not in ("self", "cls")
    ]
    plain = found.replace(parameters=each, return_annotation=_annotation(found.return_annotation))
    text = str(plain)
    if len(text) < WIDTH:
        return text
    ending = text[text.rindex(")") :] if " -> " not in text else f") -> {text.split(' -> ')[-1]}"
    return "\n".join(["(", *(f"    {one}," for one in _marked(each)), ending])


def _marked(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """The parameters, with the star after which they are given by name."""
    kinds = inspect.Parameter
    starred = False
    for number, one in enumerate(parameters):
        if one.kind is kinds.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or one.kind in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL)
        yield str(one)
        last = number + 1 == len(parameters) or parameters[number + 1].kind != one.kind
        if one.kind is kinds.POSITIONAL_ONLY and last:
            yield "/"


def _members(cls: type) -> Iterator[str]:
    """Fields, properties and methods that the package itself defines."""
    if dataclasses.is_dataclass(cls):
        for each in dataclasses.fields(cls):
            yield f"{each.name}: {_annotation(each.type)}"
    for number, name in enumerate(getattr(cls, "_fields", ())):
        yield f"{name}: field {number} of the tuple"
    seen: set[str] = set()
    for owner in cls.__mro__:
        if not owner.__module__.startswith("eqrm"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            line = _member(name, member)
            if line:
                yield line


def _member(name: str, member: Any) -> str:
    if isinstance(member, (property, cached_property)):
        return f".{name}"
    kind = {classmethod: "class method ", staticmethod: "static method "}.get(type(member), "")
    function = member.__func__ if kind else member
    return f"{kind}.{name}{parameters_of(function)}" if inspect.isfunction(function) else ""


def _is_made_here(cls: type) -> bool:
    """Whether the package says how the class is made, and not one that it derives from."""
    makers = (vars(owner).get(name) for owner in cls.__mro__ for name in ("__init__", "__new__"))
    maker = next((each for each in makers if each is not None), None)
    return getattr(maker, "__module__", "").startswith("eqrm")


def _class(name: str, cls: type) -> Iterator[str]:
    bases = [base.__name__ for base in cls.__bases__ if base is not object]
    told = f" ({', '.join(bases)})" if bases else ""
    if issubclass(cls, enum.Enum):
        yield f"class {name}{told}: {', '.join(cls.__members__)}"
        return
    made = parameters_of(cls).removesuffix(" -> None") if _is_made_here(cls) else ""
    yield f"class {name}{made}{told}"
    for line in sorted(_members(cls)):
        yield "\n".join(f"    {part}" for part in line.split("\n"))


def _lines(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield f"{name}{parameters_of(value)}"
    elif not inspect.ismodule(value):
        yield f"{name}: {type(value).__name__}"


def public_modules() -> list[str]:
    """The packages that list public names, the shortest first."""
    folders = (path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.pyi"))
    return sorted((".".join(folder.parts) for folder in folders), key=lambda each: each.split("."))


def names_text() -> str:
    """Every public name; one that is listed twice is told once, and named again."""
    first: dict[int, str] = {}
    lines: list[str] = []
    listed: list[tuple[str, Callable[[Any], list[str]]]] = [
        (module, lambda it: list(it.__all__)) for module in public_modules()
    ]
    listed.append(("eqrm.errors", lambda it: [n for n in vars(it) if n.endswith(("Error", "ing"))]))
    for place, names in listed:
        module = importlib.import_module(place)
        lines += ["", f"# {place}"]
        for name in sorted(names(module)):
            value, full = getattr(module, name), f"{place}.{name}"
            if not inspect.ismodule(value) and first.setdefault(id(value), full) != full:
                lines.append(f"{full} is {first[id(value)]}")
            else:
                lines += _lines(full, value)
    return "\n".join(lines).lstrip("\n")


def _option(it: Any) -> str:
    names = " / ".join([*it.opts, *it.secondary_opts])
    words = {"required": "required", "multiple": "repeatable", "hidden": "hidden"}
    notes = [told for word, told in words.items() if getattr(it, word, False)]
    if isinstance(it.default, (str, int, float, list, tuple)):
        notes.append(f"default {it.default!r}")
    given = (f" {it.metavar}" if it.metavar else "") + (f" ({', '.join(notes)})" if notes else "")
    panel = f"[{it.rich_help_panel}] " if it.rich_help_panel else ""
    return f"  {panel}{names}{given}: {' '.join((it.help or '').split())}"


def options_text() -> str:
    """Every command, also those of the studies, with arguments, options, defaults and help."""
    sys.path[:0] = [str(ROOT / "scripts")]
    import typer
    from reference_commands import commands
    from studies.__main__ import app

    every = [*commands(), ("python -m studies", typer.main.get_command(app))]
    lines = []
    for name, command in every:
        lines += ["", f"{name}: {' '.join((command.help or '').split())}"]
        lines += [_option(it) for it in command.params if it.name != "help"]
    return "\n".join(lines).lstrip("\n")
