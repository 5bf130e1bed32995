"""Errors and warnings of the package.

Every error that a user can cause derives from :class:`EqrmError`, so that one
``except`` (and the command line) can tell a user's mistake from a defect.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class EqrmError(Exception):
    """Base of every error raised on purpose by this package."""


class LevelError(EqrmError, ValueError):
    """A level (the probability of generalising, α) that cannot be used."""


class DomainDataError(EqrmError, ValueError):
    """Losses, domains or risks that cannot be used.

    ``index`` holds the position of the offending risk where there is one, so that
    a caller who knows the domains' names can put the name in its place.
    """

    def __init__(self, message: str, index: tuple[int, ...] | None = None) -> None:
        super().__init__(message)
        self.index = index


class TooFewDomainsError(DomainDataError):
    """A statement about unseen domains that so few domains cannot carry.

    ``domains`` is how many there are, ``needed`` how many the statement takes.
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


class MissingExtraError(EqrmError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package!r}, which is not installed. "
            f"Install it with: pip install 'eqrm[{extra}]'"
        )


class EqrmWarning(UserWarning):
    """Base of every warning issued by this package."""


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Suggest the nearest of ``choices``, then list them (at most 20).

    >>> did_you_mean("gausian", ["gaussian", "kde"])
    "Did you mean 'gaussian'? Choose from: gaussian, kde."
    """
    options = sorted(choices)
    close = difflib.get_close_matches(str(name).lower(), options, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    more = f" and {len(options) - 20} more" if len(options) > 20 else ""
    return f"{hint}Choose from: {', '.join(options[:20])}{more}."


def near_names(name: object, choices: Sequence[object], at_most: int = 20) -> str:
    """Suggest the nearest of many names, and list the first of them.

    >>> near_names("Hospitl", ["hospital", "y"])
    "Did you mean 'hospital'? There are: 'hospital', 'y'."
    """
    texts = {str(choice).lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(name).lower(), list(texts), n=1)
    hint = f"Did you mean {texts[close[0]]!r}? " if close else ""
    more = f" and {len(choices) - at_most} more" if len(choices) > at_most else ""
    return f"{hint}There are: {', '.join(repr(c) for c in choices[:at_most])}{more}."


def counted(number: int, thing: str) -> str:
    """A number of things in words.

    >>> counted(1, "domain"), counted(1200, "domain")
    ('1 domain', '1,200 domains')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
