"""Settings of a study that are several names (``--set tables=flights,bdf``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqrm.checks import one_of


def names(given: Sequence[object] | str | None, known: Iterable[str], what: str) -> list[str]:
    """Names in a list, or separated by commas, all of them known; all that are, unless given."""
    known = list(known)
    if given is None:
        return known
    parts = given.split(",") if isinstance(given, str) else map(str, given)
    return [one_of(name.strip(), known, what) for name in parts]
