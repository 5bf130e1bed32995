"""One YAML reader for configuration files and for values on the command line.

1e-3 is a number, and a key that is given twice is a mistake. 007, 12:30 and 2013-01-01 stay
strings, so that they can name domains: YAML 1.1 would read them as 7, 750 and a date, and 010 as 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from eqrm.checks import check_all
from eqrm.errors import DataFileError, EqrmError, SettingError


class _Loader(yaml.SafeLoader):
    """The safe loader with the rules above."""


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
            line = own[number].start_mark.line + 1
            raise SettingError(f"Line {line}: {key!r} is given twice. Remove one of them.")
    found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return found


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str, source: str) -> Any:
    """The content of YAML text; ``source`` names it in errors.

    >>> parse_yaml("learning_rate: 1e-3", "config.yaml")
    {'learning_rate': 0.001}
    """
    try:
        return yaml.load(text, Loader=_Loader)  # derives from SafeLoader
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        what = getattr(error, "problem", None) or "it cannot be read"
        raise DataFileError(f"{source}{line} is not valid YAML: {what}.") from None
    except EqrmError:
        raise
    except (ValueError, RecursionError) as error:  # !!int abc, thousands of brackets
        raise DataFileError(f"{source} cannot be read as YAML: {error}.") from None


def read_yaml(path: Path) -> Any:
    """What a YAML file says."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataFileError(f"{path} is not text in UTF-8.") from None
    return parse_yaml(text, str(path))


def parse_settings(given: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """``NAME=VALUE`` texts of a command line; values are YAML, so that 1e-3 is a number.

    >>> parse_settings(["l2=1e-3", "hidden=[32, 32]", "bandwidth=silverman"])
    {'l2': 0.001, 'hidden': [32, 32], 'bandwidth': 'silverman'}
    """
    found: dict[str, Any] = {}

    def parse(text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingError(f"{option} takes NAME=VALUE, such as seed=1, got {text!r}.")
        if not value.strip():
            raise SettingError(f"{option} {name} has no value. Write null if none is meant.")
        found[name] = parse_yaml(value, f"The value of {option} {name}")

    check_all(*(partial(parse, text) for text in given))
    return found
