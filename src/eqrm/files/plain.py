"""Dataclasses to plain data (what YAML and JSON hold) and back, with errors that name the field.

Tensors, tuples and other values that JSON lacks are packed by :mod:`eqrm.files.archive`.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar, Union

from eqrm.checks import (
    Problems,
    are_numbers,
    check_all,
    is_integer,
    is_number,
    naming_field,
    refuse_unknown,
)
from eqrm.errors import SettingError

T = TypeVar("T")
_WORDS = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}
_MAPPINGS = (dict, Mapping)


def read_as(kind: type[T], content: Any, path: str = "", *, what: str = "The configuration") -> T:
    """A dataclass from plain data; what is wrong is said at once, each with its path.

    ``what`` is said of the whole, which has no path. Refused are unknown fields, missing ones,
    wrong types, and what the dataclass itself refuses, by the rules of its fields or when it is
    made.
    """
    what = path or what
    if not isinstance(content, Mapping):
        raise SettingError(f"{what} must hold fields (name: value), got {content!r}.")
    known: Any = kind
    problems, fields, missing = Problems(), _fields(known), dataclasses.MISSING
    given: dict[str, Any] = {}
    with problems.noted():
        refuse_unknown(map(str, content), fields, what, "field")
    unknown = len(problems)
    for key, (field, hint) in fields.items():
        inside = f"{path}.{key}" if path else key
        with problems.noted():
            if key in content:
                given[field.name] = _read(hint, content[key], inside)
            elif field.default is missing and field.default_factory is missing:
                raise SettingError(f"{inside} is missing: it has no default.")
    made: list[T] = []
    with problems.noted(), naming_field(path):
        if len(problems) == unknown:
            made.append(kind(**given))
        else:  # what the others hold is checked as far as they say by themselves
            ruled = [f for f, _ in fields.values() if f.name in given and "rule" in f.metadata]
            check_all(*(partial(f.metadata["rule"].check, given[f.name], f.name) for f in ruled))
    problems.refuse(what, alone=True)
    return made[0]


def plain_values(value: Any, *, finite: bool = False) -> Any:
    """What :func:`read_as` read, or any other value, as plain YAML and JSON can represent it.

    A field that was ``"added"`` later is left out at its default. With ``finite``, None stands for
    numbers that are not.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            key: plain_values(getattr(value, field.name), finite=finite)
            for key, (field, _) in _fields(type(value)).items()
            if not (field.metadata.get("added") and getattr(value, field.name) == field.default)
        }
    if isinstance(value, Mapping):
        return {str(key): plain_values(part, finite=finite) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(part, finite=finite) for part in value]
    if isinstance(value, float) and finite:
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):  # of numpy
        return plain_values(value.tolist(), finite=finite)
    return getattr(value, "__qualname__", None) or str(value)


def with_value(content: Any, path: str, value: Any, source: str) -> Any:
    """The content with the field at a path (``a.b``) set; a number is a place in a list."""
    first, _, rest = path.partition(".")

    def inside(part: Any) -> Any:
        return with_value(part, rest, value, source) if rest else value

    if isinstance(content, list):
        if not first.isdecimal() or int(first) >= len(content):
            raise SettingError(
                f"{source}: {first!r} is not a valid index into a list of {len(content)} "
                "(counted from 0)."
            )
        return [inside(part) if at == int(first) else part for at, part in enumerate(content)]
    content = {} if content is None else content
    if not isinstance(content, Mapping):
        raise SettingError(f"{source}: {content!r} has no fields to set.")
    return {**content, first: inside(content.get(first))}


@cache
def _fields(kind: Any) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """The fields that plain data can set and their types, by the name that they have there."""
    hints = typing.get_type_hints(kind)
    fields = {f.metadata.get("in_files", f.name): f for f in dataclasses.fields(kind)}
    return {key: (f, hints[f.name]) for key, f in fields.items() if key is not None}


def _read(kind: Any, value: Any, path: str) -> Any:
    """A value of one field; a union takes the first of its kinds that fits."""
    is_union = typing.get_origin(kind) in (Union, types.UnionType)
    kinds = typing.get_args(kind) if is_union else (kind,)
    settings = [each for each in kinds if _is_settings(each)]
    if isinstance(value, Mapping) and len(settings) > 1:
        refuse_unknown(value, [key for each in settings for key in _fields(each)], path, "field")
        # Of several kinds of settings, the one that has most of the fields.
        kinds = (max(settings, key=lambda each: len(_fields(each).keys() & value.keys())),)
    for each in kinds:
        if _fits(each, value):
            return _converted(each, value, path)
    raise SettingError(f"{path} must be {_in_words(kinds)}, got {value!r}.")


def _converted(kind: Any, value: Any, path: str) -> Any:
    """A value that has the outer form of a kind."""
    if _is_settings(kind):
        return read_as(kind, value, path)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (list, tuple):
        kinds = [inner[0]] * len(value) if origin is list or inner[-1] is ... else inner
        parts = [(kinds[i], each, f"{path}[{i}]") for i, each in enumerate(value)]
        return origin(_parts(parts, path))
    if origin in _MAPPINGS:
        for key in value:
            if not isinstance(key, str):
                raise SettingError(f"{path} must have strings as names, got {key!r}.")
        if inner[1] is Any or (inner[1] is float and are_numbers(value.values())):
            return value
        named = [(inner[1], each, f"{path}.{key}") for key, each in value.items()]
        return dict(zip(value, _parts(named, path), strict=True))
    return float(value) if kind is float else value


def _parts(parts: Sequence[tuple[Any, Any, str]], path: str) -> list[Any]:
    """Values of their kinds, by their paths; what is wrong with any of them is said at once."""
    problems, found = Problems(), []
    for kind, value, inside in parts:
        with problems.noted():
            found.append(_read(kind, value, inside))
    problems.refuse(path, alone=True)
    return found


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value has the outer form of a kind; what is inside is looked at later."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin is typing.Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list)
    if origin is tuple:
        return isinstance(value, list) and (inner[-1] is ... or len(value) == len(inner))
    if origin in _MAPPINGS or _is_settings(kind):
        return isinstance(value, Mapping)
    if kind in (int, float):
        return is_integer(value) if kind is int else is_number(value)
    return isinstance(kind, type) and isinstance(value, kind)


def _is_settings(kind: Any) -> bool:
    """Whether it is a dataclass of settings; those are frozen, and objectives are not."""
    return isinstance(kind, type) and bool(
        getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    )


def _in_words(kinds: Sequence[Any]) -> str:
    words: list[str] = []
    for kind in kinds:
        origin = typing.get_origin(kind)
        if origin is typing.Literal:
            words += [repr(choice) for choice in typing.get_args(kind)]
        elif origin in (list, tuple):
            words.append("a list")
        elif origin in _MAPPINGS or _is_settings(kind):
            words.append("fields (name: value)")
        elif kind in _WORDS:
            words.append(_WORDS[kind])
    return " or ".join(dict.fromkeys(words))
