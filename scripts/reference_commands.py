"""The page of the reference that lists the commands, written from their help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from eqrm.cli import app

OPENING = """# Commands
`eqrm COMMAND --help` prints the same in a terminal.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by what is typed, those of groups after their group."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        inside = getattr(command, "commands", {})
        if not inside:
            yield name, command
        for part, member in inside.items():
            if not member.hidden:
                yield from below(f"{name} {part}", member)

    yield from below("eqrm", typer.main.get_command(app))


def as_prose(text: str) -> str:
    """Help as Markdown: options are code, everything else is taken as it is."""
    text = re.sub(r"([\\*_<\[`])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*[a-z])", r"`\1`", text)


def parameter(it: Any) -> str:
    """One line about an option or an argument."""
    is_option = it.opts[0].startswith("-")
    names = [*it.opts, *it.secondary_opts] if is_option else [it.metavar or it.name.upper()]
    typed = " / ".join(f"`{name}`" for name in names)
    if is_option and it.metavar:
        typed += f" `{it.metavar}`"
    help_text = as_prose(it.help or "")
    notes = []
    if it.required and is_option:
        notes.append("required")
    if type(it.default) in (str, int, float) and "default" not in help_text:
        notes.append(f"default: `{it.default}`")
    return f"- {typed}{f' ({notes[0]})' if notes else ''}: {help_text}"


def command_section(name: str, command: Any) -> str:
    """One command: what it does, its arguments, its options by what they are about."""
    parts = [f"## {name}"]
    parts += [as_prose(paragraph) for paragraph in (command.help or "").split("\n\n")]
    panels: dict[str, list[str]] = {}
    for it in command.params:
        if not it.hidden and it.name != "help":
            panel = it.rich_help_panel or ("Options" if it.opts[0].startswith("-") else "Arguments")
            panels.setdefault(panel, []).append(parameter(it))
    for panel, lines in panels.items():
        parts += [f"**{as_prose(panel)}**", "\n".join(lines)]
    return "\n\n".join(parts)


def commands_page() -> str:
    """The whole page."""
    sections = [command_section(name, command) for name, command in commands()]
    return "\n\n".join([OPENING.rstrip(), *sections]) + "\n"
