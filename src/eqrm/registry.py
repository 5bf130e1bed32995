"""One lazy registry: a name, the object behind it, and the settings that the name implies.

Objectives, predictors, datasets and models are all chosen by name. A module is imported when
something in it is asked for, and nothing outside the list can be.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Generic, TypeVar

from eqrm.checks import Rule, check_all, refuse_unknown
from eqrm.errors import SettingError
from eqrm.text import did_you_mean

T = TypeVar("T")
Place = str | tuple[str, Mapping[str, Any]]
"""``"module:attribute"``, and the settings that the name implies, if any."""


class Registry(Mapping[str, str], Generic[T]):
    """Names and where the objects behind them are (``module:attribute``).

    Upper and lower case, - and _ do not matter when a name is looked up. ``rules`` are those of
    settings by name, the same for all that have a setting of this name.
    """

    def __init__(
        self, what: str, places: Mapping[str, Place], rules: Mapping[str, Rule] | None = None
    ) -> None:
        self.what = what
        self.rules: Mapping[str, Rule] = rules or {}
        self._places = {name: (p, {}) if isinstance(p, str) else p for name, p in places.items()}

    def __getitem__(self, name: str) -> str:
        return self._places[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def name_of(self, name: str) -> str:
        """The registered form of a name; an unknown one is refused."""
        for known in self:
            if folded_name(known) == folded_name(name):
                return known
        raise SettingError(f"Unknown {self.what} {name!r}. {did_you_mean(name, sorted(self))}")

    def load(self, name: str) -> T:
        """The object behind a name."""
        module, _, attribute = self[self.name_of(name)].partition(":")
        found: T = getattr(import_module(module), attribute)
        return found

    def settings(self, name: str, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
        """The parameters that can be set, with their defaults (``inspect.Parameter.empty``: none).

        Positional parameters in ``leave_out``, and settings that the name implies, are not among
        them.
        """
        _, fixed = self._places[self.name_of(name)]
        parameters = inspect.signature(self.load(name)).parameters.values()  # type: ignore[arg-type]
        hidden = {"self", *leave_out, *fixed}
        return {p.name: p.default for p in parameters if p.name not in hidden}

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse settings that the rules of the registry do not allow, whatever the name."""
        known = [(name, self.rules[name]) for name in given if name in self.rules]
        check_all(*(partial(rule.check, given[name], name) for name, rule in known))

    def make(
        self, name: str, *arguments: Any, given: Mapping[str, Any], leave_out: tuple[str, ...] = ()
    ) -> Any:
        """Call what is behind a name with its settings; unknown and missing ones are refused."""
        known = self.settings(name, leave_out)
        owner = f"{self.what.capitalize()} {name!r}"
        refuse_unknown(given, known, owner)
        self.check(given)
        missing = [k for k, v in known.items() if v is inspect.Parameter.empty and k not in given]
        if missing:
            raise SettingError(f"{owner} needs the setting {missing[0]!r}.")
        call: Any = self.load(name)
        _, fixed = self._places[self.name_of(name)]
        return call(*arguments, **fixed, **given)


def folded_name(name: object) -> str:
    """A name without case, - and _."""
    return str(name).lower().replace("-", "").replace("_", "")
