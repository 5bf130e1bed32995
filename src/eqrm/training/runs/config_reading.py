"""Plain YAML content into dataclasses and back, with errors that name the field."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union

from eqrm.checks import is_integer, is_number, refuse_unknown
from eqrm.errors import EqrmError, SettingError
from eqrm.files.yaml_text import parse_settings
from eqrm.training.training_settings import naming_field

T = TypeVar("T")
_WORDS = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}


def with_changes(content: Any, changes: Sequence[str]) -> Any:
    """The content with ``a.b=c`` applied; c is YAML, and a number is a place in a list.

    >>> with_changes({"data": {"test": ["a"]}}, ["data.test=[b, c]", "steps=1e2"])
    {'data': {'test': ['b', 'c']}, 'steps': 100.0}
    """
    for change in changes:
        for path, value in parse_settings([change]).items():
            content = with_value(content, path, value, f"--set {path}")
    return content


def with_value(content: Any, path: str, value: Any, source: str) -> Any:
    """The content with the field at a path (``a.b``) set; ``source`` names it in errors.

    >>> with_value({"phases": [{"steps": 1}]}, "phases.0.steps", 2, "grid")
    {'phases': [{'steps': 2}]}
    """
    return _changed(content, path.split("."), value, source)


def _changed(content: Any, path: list[str], value: Any, source: str) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(content, list):
        if not first.isdecimal() or int(first) >= len(content):
            raise SettingError(
                f"{source}: {first!r} is not a valid index into a list of {len(content)} "
                "(counted from 0)."
            )
        at = int(first)
        return [*content[:at], _changed(content[at], rest, value, source), *content[at + 1 :]]
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise SettingError(f"{source}: {content!r} has no fields to set.")
    return {**content, first: _changed(content.get(first), rest, value, source)}


def read_as(kind: type[T], content: Any, path: str = "") -> T:
    """A dataclass from plain YAML content.

    Unknown fields, missing ones, wrong types and whatever the dataclass itself refuses are
    errors that begin with the field's path.

    >>> from eqrm.training import OptimizerChoice
    >>> read_as(OptimizerChoice, {"name": "sgd", "momentm": 0.5}, "training.optimizer")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: training.optimizer has no field 'momentm'. Did you mean 'momentum'?
        Choose from: ...
    """
    what = path or "The configuration"
    if not isinstance(content, Mapping):
        raise SettingError(f"{what} must hold fields (name: value), got {content!r}.")
    fields = _fields(kind)
    refuse_unknown(content, fields, what, "field")
    kinds = typing.get_type_hints(kind)
    for key, field in fields.items():
        if key not in content and _required(field):
            raise SettingError(f"{_inside(path, key)} is missing: it has no default.")
    given = {
        fields[key].name: _read(kinds[fields[key].name], value, _inside(path, key))
        for key, value in content.items()
    }
    with naming_field(path):
        return kind(**given)


def refusals(kind: type[Any], content: Any, path: str = "") -> list[str]:
    """Everything that :func:`read_as` refuses in the content, field by field.

    >>> from eqrm.training import OptimizerChoice
    >>> refusals(OptimizerChoice, {"weight_decay": -1, "momentum": "x"})
    ['weight_decay must be a number of at least 0, got -1.0.', "momentum must be a number, ..."]
    """
    first = _refusal(kind, content, path)
    if first is None or not isinstance(content, Mapping):
        return [] if first is None else [first]
    fields, kinds = _fields(kind), typing.get_type_hints(kind)
    known = {key: value for key, value in content.items() if key in fields}
    taken: dict[str, Any] = {key: known[key] for key in known if _required(fields[key])}
    found = [first] if len(known) < len(content) else []
    found += [each for each in [_refusal(kind, taken, path)] if each is not None]
    by_name = [key for key in known if typing.get_origin(kinds[fields[key].name]) is dict]
    for key in [*(key for key in known if key not in by_name), *by_name]:
        value = known[key]
        split = key in by_name and isinstance(value, Mapping)
        for part in [{name: value[name]} for name in value] if split else [value]:
            with_part = {**taken, key: {**taken.get(key, {}), **part} if split else part}
            if (refused := _refusal(kind, with_part, path)) is None:
                taken = with_part
            else:
                found.append(refused)
    return list(dict.fromkeys(found))


def _refusal(kind: type[Any], content: Any, path: str) -> str | None:
    try:
        read_as(kind, content, path)
    except EqrmError as error:
        return str(error)
    return None


def plain_values(value: Any) -> Any:
    """What :func:`read_as` read, or any other value, as plain YAML and JSON can represent it.

    >>> from eqrm.training import OptimizerChoice
    >>> plain_values(OptimizerChoice())
    {'name': 'adam', 'weight_decay': 0.0, 'momentum': 0.9, 'betas': [0.9, 0.999]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = _fields(type(value)).items()
        return {
            key: plain_values(getattr(value, field.name))
            for key, field in found
            if not (field.metadata.get("added") and getattr(value, field.name) == field.default)
        }
    if isinstance(value, Mapping):
        return {str(key): plain_values(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", None) or str(value)


def ranges(kind: type[Any], path: str = "") -> dict[str, str]:
    """What each field of a configuration must be, by its path, for fields that have a rule.

    >>> from eqrm.training import OptimizerChoice
    >>> ranges(OptimizerChoice)["momentum"]
    'a number of at least 0 and below 1'
    """
    found: dict[str, str] = {}
    kinds = typing.get_type_hints(kind)
    for key, field in _fields(kind).items():
        inside = _inside(path, key)
        rule = field.metadata.get("rule")
        if rule is not None:
            found[inside] = rule.words
        given = kinds[field.name]
        for part in typing.get_args(given) if _is_union(given) else (given,):
            listed = typing.get_origin(part) is list
            each = typing.get_args(part)[0] if listed else part
            if _is_settings(each):
                found |= ranges(each, f"{inside}[…]" if listed else inside)
    return found


def _fields(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields that a configuration can set, by the name that they have there.

    A field's metadata may give it another name in files, or none (``"in_files": None``).
    """
    named = {f.metadata.get("in_files", f.name): f for f in dataclasses.fields(kind)}
    return {key: field for key, field in named.items() if key is not None}


def _read(kind: Any, value: Any, path: str) -> Any:
    """A value of one field; a union takes the first of its kinds that fits."""
    kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
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
    if _is_settings(kind):
        return read_as(kind, value, path)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return [_read(inner[0], each, f"{path}[{i}]") for i, each in enumerate(value)]
    if origin is tuple:
        return tuple(
            _read(part, each, f"{path}[{i}]")
            for i, (part, each) in enumerate(zip(inner, value, strict=True))
        )
    if origin is dict:
        for key in value:
            if not isinstance(key, str):
                raise SettingError(f"{path} must have strings as names, got {key!r}.")
    if kind is float:
        return float(value)
    return value


def _fits(kind: Any, value: Any) -> bool:
    """Whether a value has the outer form of a kind; what is inside is looked at later."""
    if kind is Any:
        return True
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return value in typing.get_args(kind)
    if origin is list:
        return isinstance(value, list)
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(typing.get_args(kind))
    if origin is dict or _is_settings(kind):
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
        elif origin is dict or _is_settings(kind):
            words.append("fields (name: value)")
        elif kind in _WORDS:
            words.append(_WORDS[kind])
    return " or ".join(dict.fromkeys(words))


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (Union, types.UnionType)


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
