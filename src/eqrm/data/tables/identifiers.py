"""Columns that name rows or domains, and so say nothing about new ones."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.columns import Column, is_dates, is_numbers, missing_in
from eqrm.data.tables.encoded_columns import MOST_CATEGORIES
from eqrm.errors import Setting

FEWEST_ROWS, FEWEST_DOMAINS = 50, 10
"""With fewer, values may all be different by chance."""
EXACT = 2.0**53
"""Beyond this number, every float64 is an integer."""
SAMPLE = 1000
ALMOST_ALL, FEWEST_SPREAD, FAR_ABOVE, EVEN = 0.9, 1000, 1000, 0.06
"""Share of values that differ, rows and numbers per row that a column needs to look drawn at random
by its values alone, and the largest distance from an even distribution; drawn at random, 1,000 rows
are within it in 99.8% of all cases."""
SINCE_1970 = (3e8, 2.2e9)
"""Seconds from 1979 to 2039."""
ENDS = frozenset({"no", "nr", "number", "key", "pk"})
ANYWHERE = frozenset({"id", "ids", "identifier", "uuid", "guid"})
"""Words at the end of an identifier's name, and anywhere in it."""
OWNERS = (
    *("patient", "customer", "user", "client", "person", "member", "employee", "student"),
    *("account", "order", "invoice", "transaction", "case", "record", "row", "product", "item"),
    *("session", "visit", "stay", "device", "loan", "policy", "claim", "ticket", "subject"),
    *("encounter", "admission", "contract", "household", "vehicle"),
)
"""What identifiers are written together with: userid."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zäöüß]+|\d+")
GAPS = 10
"""Numbers per row up to which integers that all differ count rows, with gaps."""


def identifier_note(name: str, column: Column, domains: NDArray[np.int64]) -> str | None:
    """What an identifier is called in notes; None if the column is not one.

    An identifier is a text with another value in every row, an integer that counts the rows, an
    integer that numbers the domains, or a text that names them; an integer that seldom or never
    repeats and has the name of an identifier, or looks drawn at random from far more numbers than
    there are rows; and free text, which hardly ever repeats. ``domains`` (n,) are numbered in the
    order of their names.
    """
    if len(column) < FEWEST_ROWS or is_dates(column) or not _may_be_one(column, domains):
        return None
    present = ~missing_in(column)
    values, ids = column[present], domains[present]
    if len(values) < FEWEST_ROWS:
        return None
    if is_numbers(column) and not ((np.abs(values) < EXACT) & (values == np.rint(values))).all():
        return None
    kind = "integer" if is_numbers(column) else "text"
    distinct, place = np.unique(values, return_inverse=True)
    differ = len(distinct) == len(values)
    # Integers that all differ may be a measurement, such as an income.
    if differ and (
        kind == "text"
        or distinct[-1] - distinct[0] < GAPS * len(distinct)
        or is_identifiers_name(name)
        or _drawn_at_random(distinct, distinct)
    ):
        what = f"has a different {kind} in every row: it is an identifier"
    elif _names_domains(distinct, place, ids, numbers=kind == "integer"):
        what = f"{'numbers' if kind == 'integer' else 'names'} the domains: it is an identifier"
    elif kind == "text" and len(distinct) > max(MOST_CATEGORIES, len(values) // 2):
        what = (
            f"has {len(distinct):,} different texts in {len(column):,} rows: it is free text or an "
            "identifier"
        )
    elif kind == "integer" and (why := _seldom_repeats(name, values, distinct)):
        what = f"has {len(distinct):,} different integers in {len(values):,} rows{why}"
    else:
        return None
    return (
        f"Column {name!r} {what}, and left out. To use it, list it in {Setting('features')} with "
        "all others that are to be used."
    )


def is_identifiers_name(name: str) -> bool:
    """Whether a column is named like an identifier.

    >>> [is_identifiers_name(name) for name in ("patient_id", "CustomerID", "userid", "invoice no")]
    [True, True, True, True]
    >>> [is_identifiers_name(name) for name in ("paid", "humid", "number_of_visits", "idle_hours")]
    [False, False, False, False]
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    owned = any(words[-1] == f"{thing}{end}" for thing in OWNERS for end in ("id", "nr", "no"))
    return words[-1] in ENDS or bool({*words} & ANYWHERE) or owned


def _seldom_repeats(name: str, values: Column, distinct: Column) -> str:
    """Why integers of which some repeat are an identifier; "" if nothing says so."""
    if 2 * len(distinct) > len(values) and is_identifiers_name(name):
        return " and is named like an identifier: it is taken for one"
    if len(distinct) > ALMOST_ALL * len(values) and _drawn_at_random(values, distinct):
        span = f"from {distinct[0]:.0f} to {distinct[-1]:.0f}"
        return f", spread evenly {span}: it is taken for an identifier"
    return ""


def _drawn_at_random(values: Column, distinct: Column) -> bool:
    """Whether integers lie evenly in a range far larger than their number.

    Prices, incomes, distances and populations do not: most of them are small and a few large.
    Times in seconds since 1970 may, and are measurements.
    """
    first, last = distinct[0], distinct[-1]
    few = len(values) < FEWEST_SPREAD and len(distinct) < len(values)
    if few or first < 0 or last - first < FAR_ABOVE * len(values):
        return False
    begin, end = SINCE_1970
    if any(begin <= first / unit and last / unit <= end for unit in (1.0, 1e3, 1e6)):
        return False
    places = (np.sort(values) - first) / (last - first)
    expected = np.arange(1, len(values) + 1) / len(values)
    # Kolmogorov's distance, which is larger by chance where there are fewer.
    return bool(np.abs(places - expected).max() < EVEN * max(1.0, SAMPLE / len(values)) ** 0.5)


def _may_be_one(column: Column, domains: NDArray[np.int64]) -> bool:
    """Whether a few rows leave it open; sorting all of a long column of text takes long."""
    spread = column[:: max(1, len(column) // SAMPLE)]
    if 2 * len(np.unique(spread)) > len(spread) // 2:
        return True
    first = np.zeros(int(domains.max()) + 1, dtype=np.int64)
    first[domains[::-1]] = np.arange(len(domains))[::-1]
    some = np.arange(0, len(column), max(1, len(column) // SAMPLE))
    own = column[first[domains[some]]]
    differ = (column[some] != own) & ~missing_in(column[some]) & ~missing_in(own)
    return not differ.any()


def _names_domains(
    distinct: Column, place: NDArray[np.int64], ids: NDArray[np.int64], numbers: bool
) -> bool:
    """Whether every domain has a value of its own, which for numbers counts or orders them."""
    used = np.unique(ids)
    if len(distinct) != len(used) or len(used) < FEWEST_DOMAINS:
        return False
    pairs = np.unique(np.column_stack([ids, place]), axis=0)
    if len(pairs) != len(used):
        return False
    if not numbers:
        return True
    steps = np.diff(pairs[:, 1])  # domains are in the order of their names
    dense = distinct[-1] - distinct[0] < 2 * len(used)
    return bool((steps > 0).all() or (steps < 0).all() or dense)
