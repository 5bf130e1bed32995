"""What columns say of the domains besides losses: whether training has seen them, when they began.

A column ``seen`` (``eqrm predict`` writes one) says of each row whether a model was trained on its
domain. It must be true or false, and the same in all rows of a domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.seen_domains import SEEN
from eqrm.data.tables.files import TableFiles
from eqrm.data.tables.frames import in_memory
from eqrm.data.times import domain_spans, order_remedy
from eqrm.domains import (
    Name,
    NumberedDomains,
    domain_names,
    joined_columns,
    named_domains,
    number_domains,
)
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.grouped_losses import selected
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.text import counted, shortened

TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, eq=False)
class DomainFacts:
    """Names of domains as strings: those ``seen`` in training, and when each began.

    ``seen`` is None where no column says so, ``began`` where no column orders the domains.
    """

    seen: frozenset[str] | None = None
    began: Mapping[str, Any] | None = None


def facts_of_files(table: TableFiles, names: Sequence[str], spec: MeasurementSpec) -> DomainFacts:
    """What the columns of files say, each in one group-by."""
    column = spec.seen_among(table.types)
    if spec.seen_among([SEEN]) == SEEN:
        table.refuse_later(SEEN)
    seen = None if column is None else _seen_in_files(table, names, str(column))
    began = None
    if spec.order is not None:
        domains, times = domain_times(table, names, spec.order)
        began = _began(domains, times, f"The order column ({spec.order!r})")
    return DomainFacts(seen, began)


def facts_of_arrays(spec: MeasurementSpec) -> DomainFacts:
    """What arrays with a value per row say."""
    if spec.seen is None and spec.order is None:
        return DomainFacts()
    domains = number_domains(spec.domains)
    seen = None
    if spec.seen is not None:
        flags = _flags(in_memory(spec.seen), len(domains.ids))
        size = len(domains.names)
        yes = np.bincount(domains.ids[flags], minlength=size)
        no = np.bincount(domains.ids[~flags], minlength=size)
        seen = _agreeing(domains.names, yes, no, SEEN)
    began = None if spec.order is None else _began(domains, spec.order, "order")
    return DomainFacts(seen, began)


def domain_times(
    table: TableFiles, names: Sequence[str], order: str
) -> tuple[NumberedDomains, list[Any]]:
    """Domains and times in a column: the first and last of each, or all where they are text."""
    moment, kind = table.column(order), table.types[order]
    both = "[min(t), max(t)]"
    if kind == "VARCHAR":  # which has no order of its own
        both = "list(DISTINCT t)"
    elif kind == "TIMESTAMP WITH TIME ZONE":
        moment = f"{moment} AT TIME ZONE 'UTC'"
        both = "[CAST(min(t) AS VARCHAR) || '+00:00', CAST(max(t) AS VARCHAR) || '+00:00']"
    found, rows = _by_domain(table, names, moment, f"{both}, count(*) - count(t)")
    absent = sum(row[1] for row in rows)
    if absent:
        raise DomainDataError(
            f"The order column {order!r} is missing in {counted(absent, 'row')}. Fill it in, or "
            "drop the rows."
        )
    ids = np.repeat(np.arange(len(rows)), [len(row[0]) for row in rows])
    return NumberedDomains(ids, tuple(found)), [time for row in rows for time in row[0]]


def truth_in_sql(table: TableFiles, column: str) -> str:
    """A column of true and false as SQL, NULL where it is neither."""
    identifier, kind = table.column(column), table.types[column]
    if kind == "BOOLEAN":
        return identifier
    if kind == "VARCHAR":
        text = f"lower(trim({identifier}))"
        return f"CASE {text} WHEN 'true' THEN true WHEN 'false' THEN false END"
    return "CAST(NULL AS BOOLEAN)"


def refuse_untrue(column: str, value: Any = "something else") -> None:
    """Raise the error about a column that must say whether a domain was seen, and does not."""
    shown = "a missing value" if is_missing(value) else shortened(repr(value))
    raise DomainDataError(
        f"The column {column!r} says whether training has seen the row's domain, so it must be "
        f"true or false in every row, got {shown}. Fix it, or rename it if it means something else."
    )


def _seen_in_files(table: TableFiles, names: Sequence[str], column: str) -> frozenset[str]:
    identifier = table.column(column)
    flag = truth_in_sql(table, column)
    found, rows = _by_domain(
        table,
        names,
        f"{{'flag': {flag}, 'text': CAST({identifier} AS VARCHAR)}}",
        "count(*) FILTER (WHERE t.flag), count(*) FILTER (WHERE NOT t.flag), "
        "count(*) FILTER (WHERE t.flag IS NULL), max(t.text) FILTER (WHERE t.flag IS NULL)",
    )
    for *_, neither, example in rows:
        if neither:
            refuse_untrue(column, example)
    yes, no = (np.array([row[place] for row in rows]) for place in (0, 1))
    return _agreeing(found, yes, no, column)


def _by_domain(
    table: TableFiles, names: Sequence[str], value: str, sums: str
) -> tuple[list[Name], list[tuple[Any, ...]]]:
    """The domains, and aggregates of an expression t over the rows of each."""
    held = {f"d{j}": table.domain(name) for j, name in enumerate(names)}
    keys = ", ".join(held)
    rows = f"{selected({**held, 't': value})} FROM {table.source}"
    found = table.run(f"SELECT {keys}, {sums} FROM ({rows}) GROUP BY {keys}").fetchall()
    columns = [[row[j] for row in found] for j in range(len(held))]
    return domain_names(joined_columns(columns)), [row[len(held) :] for row in found]


def _agreeing(
    names: Sequence[Name], yes: NDArray[Any], no: NDArray[Any], column: str
) -> frozenset[str]:
    """The domains whose rows all say that they were seen; raises where they disagree."""
    both = [name for name, one, other in zip(names, yes, no, strict=True) if one and other]
    if both:
        raise DomainDataError(
            f"The column {column!r} is true in some rows and false in others of "
            f"{named_domains(both)}. Training has seen a domain or not: use the domains that the "
            "model was trained with, or a part of each."
        )
    return frozenset(str(name) for name, one in zip(names, yes, strict=True) if one)


def _began(domains: NumberedDomains, times: Any, what: str) -> dict[str, Any]:
    spans = domain_spans(domains.ids, domains.names, times, what, order_remedy())
    return dict(zip(map(str, domains.names), spans.first, strict=True))


def _flags(values: NDArray[Any], rows: int) -> NDArray[np.bool_]:
    if values.shape != (rows,):
        raise DomainDataError(
            f"{SEEN} must hold true or false for each of {rows:,} rows, got the shape "
            f"{values.shape}."
        )
    if values.dtype.kind == "b":
        return values
    found = [
        TRUTH.get(value.strip().lower()) if isinstance(value, str) else value
        for value in values.tolist()
    ]
    for value, flag in zip(values.tolist(), found, strict=True):
        if not isinstance(flag, bool):
            refuse_untrue(SEEN, value)
    return np.array(found, dtype=bool)
