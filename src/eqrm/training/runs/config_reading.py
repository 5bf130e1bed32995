"""YAML into dataclasses, with errors that name the field, what came and what is allowed."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, Union

import yaml

from eqrm.errors import (
    DataFileError,
    DomainDataError,
    EqrmError,
    LevelError,
    SettingError,
    TooFewDomainsError,
    did_you_mean,
)

T = TypeVar("T")
_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: 1e-3 is a number, and a key that comes twice is a mistake.

    007, 12:30 and 2013-01-01 stay the texts that they are, so that they can name domains: YAML
    1.1 would make 7, 750 and a date of them, and 8 of 010.
    """


_INT, _DATE = "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag not in (_INT, _DATE)]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, re.compile(r"^[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    keys = [loader.construct_object(key, deep=True) for key in own]
    for number, key in enumerate(keys):
        if key in keys[:number]:
            raise SettingError(
                f"Line {own[number].start_mark.line + 1}: {key!r} is given twice. Remove one of "
                "them."
            )
    found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return found


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parsed_yaml(text: str, source: str) -> Any:
    """What a YAML text says; a ``DataFileError`` names the source where it is no YAML.

    >>> parsed_yaml("learning_rate: 1e-3", "config.yaml")
    {'learning_rate': 0.001}
    """
    try:
        return yaml.load(text, Loader=_Loader)  # derives from SafeLoader
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        what = getattr(error, "problem", None) or "it cannot be read"
        raise DataFileError(f"{source}{line} is no YAML: {what}.") from None
    except EqrmError:
        raise
    except (ValueError, RecursionError) as error:  # !!int abc, thousands of brackets
        raise DataFileError(f"{source} cannot be read as YAML: {error}.") from None


def read_yaml(path: Path) -> Any:
    """What a YAML file says."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataFileError(f"The configuration {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataFileError(f"The configuration {path} is no text in UTF-8.") from None
    return parsed_yaml(text, str(path))


def with_changes(content: Any, changes: Sequence[str]) -> Any:
    """The content with ``a.b=c`` applied; c is YAML, and a number is a place in a list.

    >>> with_changes({"data": {"test": ["a"]}}, ["data.test=[b, c]", "steps=1e2"])
    {'data': {'test': ['b', 'c']}, 'steps': 100.0}
    """
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise SettingError(f"--set takes FIELD=VALUE, as in training.seed=1; {change!r} came.")
        value = parsed_yaml(text, f"--set {path}")
        content = _changed(content, path.split("."), value, change)
    return content


def _changed(content: Any, path: list[str], value: Any, change: str) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(content, list):
        if not first.isdecimal() or int(first) >= len(content):
            raise SettingError(
                f"--set {change}: {first!r} is no place in a list of {len(content)}; places count "
                "from 0."
            )
        at = int(first)
        return [*content[:at], _changed(content[at], rest, value, change), *content[at + 1 :]]
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise SettingError(f"--set {change}: there is nothing inside of {content!r} to set.")
    return {**content, first: _changed(content.get(first), rest, value, change)}


@contextmanager
def naming_field(path: str) -> Iterator[None]:
    """Put a field's path in front of an error about it.

    >>> with naming_field("objective"):
    ...     raise SettingError("There is no objective 'emr'.")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: objective: There is no objective 'emr'.
    """
    try:
        yield
    except (SettingError, LevelError, DomainDataError) as error:
        if not path or str(error).startswith(path) or isinstance(error, TooFewDomainsError):
            raise
        raise type(error)(f"{path}: {error}") from None


def read_as(kind: type[T], content: Any, path: str = "") -> T:
    """A dataclass from plain YAML content.

    Unknown fields, missing ones, wrong types and whatever the dataclass itself refuses are
    errors that begin with the field's path.

    >>> from eqrm.training.optimizers import OptimizerChoice
    >>> read_as(OptimizerChoice, {"name": "sgd", "momentm": 0.5}, "training.optimizer")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: training.optimizer has no field 'momentm'. Did you mean 'momentum'?
        Choose from: ...
    """
    what = path or "The configuration"
    if not isinstance(content, Mapping):
        raise SettingError(f"{what} must hold fields (name: value), not {content!r}.")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in content:
        if key not in fields:
            raise SettingError(f"{what} has no field {key!r}. {did_you_mean(key, fields)}")
    kinds = typing.get_type_hints(kind)
    for name, field in fields.items():
        if name not in content and _required(field):
            raise SettingError(f"{_inside(path, name)} is missing: it has no default.")
    given = {
        name: _read(kinds[name], value, _inside(path, name)) for name, value in content.items()
    }
    with naming_field(path):
        return kind(**given)


def _read(kind: Any, value: Any, path: str) -> Any:
    """A value of one field; a union takes the first of its kinds that fits."""
    kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
    for each in kinds:
        if _fits(each, value):
            return _converted(each, value, path)
    raise SettingError(f"{path} must be {_in_words(kinds)}, not {value!r}.")


def _converted(kind: Any, value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
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
                raise SettingError(f"{path} must have texts as names, not {key!r}.")
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
    if origin is dict or (dataclasses.is_dataclass(kind) and isinstance(kind, type)):
        return isinstance(value, Mapping)
    if kind in (int, float):
        numbers = int if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(kind, type) and isinstance(value, kind)


def _in_words(kinds: Sequence[Any]) -> str:
    words: list[str] = []
    for kind in kinds:
        origin = typing.get_origin(kind)
        if origin is typing.Literal:
            words += [repr(choice) for choice in typing.get_args(kind)]
        elif origin in (list, tuple):
            words.append("a list")
        elif origin is dict or dataclasses.is_dataclass(kind):
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
