"""Errors and warnings of the package, and how their messages name settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from eqrm.text import printable, typed

_FROM_DATA = re.compile(r"\n(?! )")
"""Line feeds that do not begin an indented line of a list: they come from data."""


def _message(text: str) -> str:
    """A message as it is shown: names of files, columns and domains in it may hold anything."""
    return _FROM_DATA.sub(r"\\u000a", printable(text))


OPTIONS = {
    "categories": "category",
    "domains": "domain",
    "features": "feature",
    "losses": "loss",
    "missing_values": "missing-value",
    "predictions": "prediction",
    "root": "data-root",
    "settings": "set",
    "weight": "row-weight",
}
"""Keywords whose option on the command line has another name."""
_voice = {"options": False}


@contextmanager
def settings_as_options() -> Iterator[None]:
    """Messages that are written inside name settings as the command line does."""
    before, _voice["options"] = _voice["options"], True
    try:
        yield
    finally:
        _voice["options"] = before


@dataclass(frozen=True)
class Setting:
    """A setting that a message names, with the value to give it: a keyword, or an option.

    >>> advice = Setting("drop", ["blood pressure"]), Setting("resume", False), Setting("test_last")
    >>> " ".join(map(str, advice))
    "drop=['blood pressure'] resume=False test_last"
    >>> with settings_as_options():
    ...     print(*advice, Setting("settings", {"steps": None}))
    --drop 'blood pressure' --no-resume --test-last --set steps=null
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        value = self.value
        if not _voice["options"]:
            return self.name if value is None else f"{self.name}={value!r}"
        option = OPTIONS.get(self.name, self.name.replace("_", "-"))
        if value is None or isinstance(value, bool):
            return f"--{'no-' if value is False else ''}{option}"
        if isinstance(value, dict):
            value = [f"{name}={'null' if each is None else each}" for name, each in value.items()]
        several = value if isinstance(value, (list, tuple)) else [value]
        return " ".join(f"--{option} {typed(each)}" for each in several)


class EqrmError(Exception):
    """Base of every error raised on purpose by this package.

    Errors are copied and pickled with their fields: a pool of worker processes waits for ever for
    a result that cannot be unpickled.
    """

    def __str__(self) -> str:
        return _message(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[EqrmError], args: tuple[Any, ...], fields: dict[str, Any]) -> EqrmError:
    """The error with this message and these fields, whatever its class is called with."""
    made = kind.__new__(kind, *args)
    made.__dict__.update(fields)
    return made


class LevelError(EqrmError, ValueError):
    """A level (the probability of generalising, α) that cannot be used."""


class DomainDataError(EqrmError, ValueError):
    """Losses, domains or risks that cannot be used.

    ``index`` holds the position of the offending risk where there is one. The message then says
    ``{domain}`` where it names the domain, so that a caller who knows its name can put it there.
    """

    def __init__(self, message: str, index: tuple[int, ...] | None = None) -> None:
        self.index, self.template = index, message
        if index is not None:
            message = self.template.replace("{domain}", f"domain {index[-1]}")
        super().__init__(message)


@contextmanager
def naming_domains(names: Sequence[object]) -> Iterator[None]:
    """Put the name of a domain into an error that knows only its index; nothing without names."""
    try:
        yield
    except DomainDataError as error:
        if error.index is None or not names:
            raise
        shown = f"domain {names[error.index[-1]]!r}"
        named = DomainDataError(error.template.replace("{domain}", shown), error.index)
        named.template = error.template
        raise named from None


class TooFewDomainsError(DomainDataError):
    """There are too few domains for a statement about unseen domains.

    ``domains`` is how many there are, ``needed`` how many are required.
    """

    def __init__(self, message: str, domains: int, needed: float) -> None:
        super().__init__(message)
        self.domains = domains
        self.needed = needed


class DataFileError(EqrmError, ValueError):
    """A file that cannot be found, or cannot be read as the table it should be."""


class CheckpointError(EqrmError, ValueError):
    """A checkpoint that is damaged, or belongs to another run."""


class SettingError(EqrmError, ValueError):
    """An option or hyperparameter with a name or value that does not exist."""


class ListedProblemsError(DomainDataError, SettingError):
    """Several mistakes at once, one per line; ``problems`` holds them."""

    def __init__(self, message: str, problems: tuple[str, ...]) -> None:
        super().__init__(message)
        self.problems = problems


class MissingExtraError(EqrmError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package!r}, which is not installed. "
            f"Install it with: pip install 'eqrm[{extra}]'"
        )


@contextmanager
def naming_extra(
    package: str, extra: str, purpose: str, module: str | None = None
) -> Iterator[None]:
    """Say what needs an optional package, where it cannot be imported.

    With ``module``, only where that is not installed: what else fails inside is passed on.
    """
    try:
        yield
    except ImportError as error:
        if module and not (isinstance(error, ModuleNotFoundError) and error.name == module):
            raise
        raise MissingExtraError(package, extra, purpose) from None


def naming_torch(purpose: str) -> AbstractContextManager[None]:
    """The same of torch, around code that may import others."""
    return naming_extra("torch", "torch", purpose, module="torch")


class EqrmWarning(UserWarning):
    """Base of every warning issued by this package."""

    def __str__(self) -> str:
        return _message(super().__str__())
