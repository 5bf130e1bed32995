"""The checks of numbers and choices that users give, with their error texts.

A :class:`Rule` is a condition and its description. Settings, hyperparameters and
options are all checked by rules, so that the same mistake gives the same error message everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, TypeVar

from eqrm.errors import (
    DomainDataError,
    EqrmError,
    LevelError,
    ListedProblemsError,
    Setting,
    SettingError,
    TooFewDomainsError,
)
from eqrm.text import counted, did_you_mean, listed, shortened

T = TypeVar("T")
LONGEST_VALUE = 200
MOST_NAMES = 20


@dataclass(frozen=True)
class Rule:
    """Which values are allowed: a condition, and a description that completes "must be …"."""

    words: str
    holds: Callable[[Any], bool]

    def check(self, value: T, name: str) -> T:
        """The value itself, or a ``SettingError`` that names it."""
        if not self.holds(value):
            given = shortened(repr(value), LONGEST_VALUE)
            raise SettingError(f"{name} must be {self.words}, got {given}.")
        return value


def is_integer(value: object) -> bool:
    """Whether it is an integer of Python or numpy; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a real number that is finite; True and False are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def are_numbers(values: Collection[object]) -> bool:
    """Whether all are real numbers that are finite; quick where all are floats of Python."""
    if set(map(type, values)) <= {float}:
        return all(map(math.isfinite, values))  # type: ignore[arg-type]
    return all(map(is_number, values))


def is_missing(value: Any) -> bool:
    """Whether it is None, NaN, NaT, pandas' NA or a blank string."""
    if isinstance(value, str):
        return not value.strip()
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA does not say
        return True
    except ValueError:  # an array
        return False


def integer(least: int | None = None, most: int | None = None) -> Rule:
    """An integer within closed limits."""
    return _ranged("an integer", is_integer, least, most)


def number(
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Rule:
    """A finite number; ``least`` and ``most`` belong to its range, ``above`` and ``below`` do not.

    >>> number(above=0, most=1).words, number(0, 1).words, number(above=0, below=1).words
    ('a number above 0 and at most 1', 'a number from 0 to 1', 'a number strictly between 0 and 1')
    """
    return _ranged("a number", is_number, least, most, above, below)


def _ranged(
    what: str,
    kind: Callable[[object], bool],
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Rule:
    if least is not None and most is not None:
        limits = f" from {_shown(least)} to {_shown(most)}"
    elif above is not None and below is not None:
        limits = f" strictly between {_shown(above)} and {_shown(below)}"
    else:
        named = (("above", above), ("of at least", least), ("at most", most), ("below", below))
        parts = [f"{word} {_shown(limit)}" for word, limit in named if limit is not None]
        limits = f" {' and '.join(parts)}" if parts else ""

    def holds(value: Any) -> bool:
        return kind(value) and (
            (least is None or value >= least)
            and (most is None or value <= most)
            and (above is None or value > above)
            and (below is None or value < below)
        )

    return Rule(f"{what}{limits}", holds)


def _shown(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else str(limit)


def optional(rule: Rule) -> Rule:
    """The same rule, or None."""
    return Rule(f"None or {rule.words}", lambda v: v is None or rule.holds(v))


POSITIVE = number(above=0)
NON_NEGATIVE = number(0)
FRACTION = number(0, 1)
OPEN_FRACTION = number(above=0, below=1)
CONFIDENCE = Rule(
    "a number strictly between 0 and 1, and at least 1e-9", number(1e-9, below=1).holds
)
"""Closer to 0, too few digits are left in 1 − confidence."""
POSITIVE_INTEGER = integer(1)
NON_NEGATIVE_INTEGER = integer(0)
COUNT = integer(1, 1_000_000_000)
"""Steps, intervals and sizes of training: more than any run can use."""
SEED = integer(0, 2**63 - 1)
"""What every random generator accepts."""
SHARE_OR_NAMES = Rule(
    "a share of the domains strictly between 0 and 1 (0.43 for 30 of 70), or names of domains",
    lambda v: not isinstance(v, Real) or OPEN_FRACTION.holds(v),
)
FLAG = Rule("True or False", lambda v: isinstance(v, bool) or type(v).__name__ in ("bool_", "bool"))


def ruled(default: Any, rule: Rule, **metadata: Any) -> Any:
    """A field of a dataclass of settings that a rule checks (:func:`check_fields`).

    >>> @dataclass
    ... class Loop:
    ...     steps: int = ruled(100, POSITIVE_INTEGER)
    >>> check_fields(Loop(steps=0))
    Traceback (most recent call last):
    eqrm.errors.SettingError: steps must be an integer of at least 1, got 0.
    """
    return field(default=default, metadata={"rule": rule, **metadata})


def check_fields(settings: Any, form: str = "{}") -> None:
    """Check every field that has a rule; ``form`` is how errors call them."""
    checks = list[Callable[[], object]]()
    for each in fields(settings):
        if "rule" in each.metadata:
            value = getattr(settings, each.name)
            checks.append(partial(each.metadata["rule"].check, value, form.format(each.name)))
    check_all(*checks)


def one_of(value: object, choices: Iterable[str], what: str) -> str:
    """The value, if it is one of the choices; otherwise the nearest of them is suggested."""
    options = list(choices)
    if not isinstance(value, str) or value not in options:
        given = shortened(repr(value), LONGEST_VALUE)
        raise SettingError(f"Unknown {what} {given}. {did_you_mean(value, options)}")
    return value


def check_all(*checks: Callable[[], object]) -> None:
    """Call every check; what they refuse is raised as one error, each problem once.

    >>> check_all(lambda: POSITIVE.check(0, "a"), lambda: POSITIVE.check(-1, "b"))
    Traceback (most recent call last):
    eqrm.errors.SettingError: a must be a number above 0, got 0. b must be a number above 0, got -1.
    """
    problems = Problems()
    for check in checks:
        with problems.noted():
            check()
    if len(problems) > 1:
        raise SettingError(" ".join(problems))
    problems.refuse("", alone=True)


class Problems(list[str]):
    """What is wrong with something that a user gave, each problem once.

    >>> problems = Problems()
    >>> with problems.noted("run"):
    ...     raise SettingError("steps is missing.")
    >>> problems.refuse("plan.yaml")
    Traceback (most recent call last):
    eqrm.errors.ListedProblemsError: plan.yaml has 1 problem:
      - run: steps is missing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[EqrmError] = []

    def note(self, problem: str, where: str = "") -> None:
        """Add a problem, unless it is there already."""
        whole = f"{where}: {problem}" if where else problem
        if whole not in self:
            self.append(whole)

    def noted(self, where: str = "") -> _Noting:
        """A context that notes the user's mistake that is found inside, and goes on."""
        return _Noting(self, where)

    def refuse(self, source: str, *, alone: bool = False) -> None:
        """Raise all as one error if there are any; with ``alone``, a single one as it was."""
        if alone and len(self) == 1:
            raise self.errors[0] if self.errors else SettingError(self[0])
        if self:
            lines = "".join(f"\n  - {problem}" for problem in self)
            raise ListedProblemsError(
                f"{source} has {counted(len(self), 'problem')}:{lines}", tuple(self)
            )


@dataclass(frozen=True)
class _Noting:
    """What :meth:`Problems.noted` gives; a class, so that mypy knows that the code goes on."""

    problems: Problems
    where: str

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, EqrmError):
            return False
        self.problems.errors.append(error)
        several = error.problems if isinstance(error, ListedProblemsError) else [str(error)]
        for problem in several:
            self.problems.note(problem, self.where)
        return True


@contextmanager
def naming_field(path: str) -> Iterator[None]:
    """Put the path of a setting in front of an error about it; nothing without a path."""
    try:
        yield
    except (SettingError, LevelError, DomainDataError) as error:
        if not path or isinstance(error, (TooFewDomainsError, ListedProblemsError)):
            raise
        raise type(error)(f"{path}: {error}") from None


def refuse_unknown(
    given: Iterable[str], known: Iterable[str], owner: str, what: str = "setting"
) -> None:
    """Raise if ``owner`` does not have some of the given names; the error lists all of them.

    >>> refuse_unknown(["widht"], ["width", "depth"], "Predictor 'mlp'")
    Traceback (most recent call last):
    eqrm.errors.SettingError: Predictor 'mlp' has no setting 'widht'. Did you mean 'width'? ...
    """
    options = list(known)
    unknown = [name for name in given if name not in options]
    if unknown:
        names = listed(unknown, MOST_NAMES)
        plural = "" if len(unknown) == 1 else "s"
        raise SettingError(
            f"{owner} has no {what}{plural} {names}. {did_you_mean(unknown[0], options)}"
        )


def setting(default: Any, panel: str | None, text: str, *, kind: str = "text", **more: Any) -> Any:
    """A field with its help, in a panel of the command; without a panel, Python alone has it.

    ``kind`` says how it is given: "text", "number", "integer", "flag" (or "switch", with its
    reverse); "names" or "values", one or several; and what :mod:`eqrm.cli.options` reads otherwise.
    ``rule`` and ``choices`` are what is allowed, ``metavar`` what the help calls a value.
    """
    return field(default=default, metadata={"kind": kind, "panel": panel, "help": text, **more})


def checked_settings(
    plan: type[Any], given: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """The settings that were given, as the plan holds them; what is wrong is noted."""
    found = dict[str, Any]()
    for each in fields(plan):
        if each.name in given:
            with problems.noted():
                found[each.name] = _checked(each, given[each.name])
    return found


def _checked(each: Field[Any], value: Any) -> Any:
    """The value of a setting, in the form that the plan holds."""
    about, name = {"kind": "", **each.metadata}, str(Setting(each.name))
    if "choices" in about:
        return one_of(value, about["choices"], each.name)
    if about["kind"] in ("flag", "switch"):
        return FLAG.check(value, name)
    if about["kind"] == "share or names":
        return [value] if isinstance(value, str) else SHARE_OR_NAMES.check(value, name)
    if about["kind"] in ("names", "values") and value is not None:
        values = about["kind"] == "values"
        several = isinstance(value, Iterable) and not isinstance(value, str)
        if not (several or values or isinstance(value, str)):
            raise SettingError(f"{name} must be a name or a list of names, got {value!r}.")
        listed = list(value) if several else [value]
        return [str(one) for one in listed] if values else listed
    return about["rule"].check(value, name) if "rule" in about else value
