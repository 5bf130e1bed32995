"""Studies use public names of the package; the few others are counted, and listed with reasons."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import eqrm
from eqrm import errors

STUDIES = Path(__file__).resolve().parents[2] / "studies"
SOURCE = Path(eqrm.__file__).parent
MOST_PRIVATE = 120


def public_names() -> set[str]:
    """What ``eqrm`` and its public packages list, and the classes of ``eqrm.errors``."""
    packages = [eqrm, *(getattr(eqrm, name) for name in eqrm.__all__)]
    listed = {
        f"{package.__name__}.{name}"
        for package in packages
        if inspect.ismodule(package)
        for name in getattr(package, "__all__", ())
    }
    raised = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    return {"eqrm.__version__", *listed, *(f"eqrm.errors.{name}" for name in raised)}


def is_module(name: str) -> bool:
    """Whether a dotted name is a module or package of eqrm."""
    place = SOURCE.joinpath(*name.split(".")[1:])
    return place.is_dir() or place.with_suffix(".py").is_file()


def used_names(source: str) -> Iterator[str]:
    """The names of eqrm that a module imports, or takes from modules of eqrm by a dot."""
    modules: dict[str, str] = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "eqrm":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if is_module(name):
                    modules[alias.asname or alias.name] = name
                else:
                    yield name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "eqrm":
                    modules[alias.asname or "eqrm"] = alias.name if alias.asname else "eqrm"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := _dotted(node, modules)):
            yield name


def _dotted(node: ast.Attribute, modules: dict[str, str]) -> str | None:
    """The name behind ``module.name``; None where what is before the dot is no module."""
    before = node.value
    if isinstance(before, ast.Name):
        owner = modules.get(before.id)
    else:
        owner = _dotted(before, modules) if isinstance(before, ast.Attribute) else None
        owner = owner if owner is not None and is_module(owner) else None
    return None if owner is None else f"{owner}.{node.attr}"


def private_names() -> set[str]:
    """Those of all studies; modules themselves are no names."""
    found = {name for path in STUDIES.rglob("*.py") for name in used_names(path.read_text("utf-8"))}
    return {name for name in found - public_names() if not is_module(name)}


def test_at_most_120_private_names_are_used_and_each_is_listed() -> None:
    used = private_names()
    assert 10 < len(used) <= MOST_PRIVATE
    page = (STUDIES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- `(eqrm\.[\w.]+)`: (.+)$", page, re.MULTILINE)
    listed = [f"{module}.{name}" for module, names in rows for name in _quoted(names)]
    assert sorted(used - set(listed)) == [], "list it in studies/README.md"
    assert sorted(set(listed) - used) == [], "no study uses it: take it from studies/README.md"
    assert len(listed) == len(set(listed))


def _quoted(names: str) -> list[str]:
    return re.findall(r"`(\w+)`", names)
