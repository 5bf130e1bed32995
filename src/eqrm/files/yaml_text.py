"""One YAML reader for configuration files and for values on the command line.

1e-3 is a number, and a key that is given twice is a mistake. 007, 12:30 and 2013-01-01 stay
strings, so that they can name domains: YAML 1.1 would read them as 7, 750 and a date, and 010 as 8.
A few lines can stand for billions of values by aliases (``*name``), so their number is limited.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from eqrm.checks import check_all
from eqrm.errors import DataFileError, EqrmError, Setting, SettingError
from eqrm.files.reading import refusing_damage, regular_file
from eqrm.text import shortened

MOST_VALUES = 1_000_000
"""What a text may stand for with its aliases written out; ten characters count as a value."""


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
    keys: set[Any] = set()
    for part in own:
        key = loader.construct_object(part, deep=True)
        if not isinstance(key, Hashable):
            continue  # refused below
        if key in keys:
            line = part.start_mark.line + 1
            raise SettingError(f"Line {line}: {key!r} is given twice. Remove one of them.")
        keys.add(key)
    return loader.construct_mapping(node, deep=True)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    found: int = loader.construct_yaml_int(node)
    str(found)  # a ValueError where it has too many digits to be shown
    return found


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor(_INT, _integer)


def _values(node: yaml.Node, known: dict[yaml.Node, int | None]) -> int:
    """How many values a node stands for; ``known`` has None for those that it is inside of."""
    if node in known:
        if (count := known[node]) is None:
            problem = "an alias is inside of what it names"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return count
    known[node] = None
    parts: Iterable[yaml.Node] = () if isinstance(node, yaml.ScalarNode) else node.value
    if isinstance(node, yaml.MappingNode):
        parts = chain.from_iterable(node.value)
    own = len(node.value) // 10 if isinstance(node, yaml.ScalarNode) else 0
    known[node] = found = 1 + own + sum(_values(part, known) for part in parts)
    return found


def parse_yaml(text: str, source: str) -> Any:
    """The content of YAML text; ``source`` names it in errors."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > MOST_VALUES:
            raise DataFileError(
                f"{source} stands for more than {MOST_VALUES:,} values, with its aliases (*name) "
                "written out. Use fewer of them, or shorten what they name."
            )
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        what = getattr(error, "problem", None) or "it cannot be read"
        raise DataFileError(f"{source}{line} is not valid YAML: {what}.") from None
    except RecursionError:
        raise DataFileError(f"{source} cannot be read as YAML: it is nested too deeply.") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, EqrmError):
            raise
        raise DataFileError(f"{source} is not valid YAML: {shortened(str(error))}.") from None
    finally:
        loader.dispose()


def read_yaml(path: Path) -> Any:
    """What a YAML file says."""
    with refusing_damage(path):
        text = regular_file(path).read_text(encoding="utf-8")
    return parse_yaml(text, str(path))


def parse_settings(given: Iterable[str], option: object = Setting("set")) -> dict[str, Any]:
    """``NAME=VALUE`` texts of a command line; values are YAML, so that 1e-3 is a number."""
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
