"""What columns say of the domains besides losses: whether training has seen them, when they began.

A column ``seen`` (``eqrm predict`` writes one) says of each row whether a model was trained on its
domain. It must be true or false, and the same in all rows of a domain.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from eqrm.evaluation.measuring.measured import DomainFacts
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.text import counted, shortened

TRUTH = {"true": True, "false": False}
MISSING = "count(*) - count(t)"


def facts_of_files(table: TableFiles, names: Sequence[str], spec: MeasurementSpec) -> DomainFacts:
    """What the columns of files say, each in one group-by."""
    column = spec.seen_among(table.types)
    if spec.seen_among([SEEN]) == SEEN:
        table.refuse_later(SEEN)
    seen = None
    if column is not None:
        text = f"CAST({table.column(column)} AS VARCHAR)"
        found, rows = _by_domain(table, names, text, f"list(DISTINCT t), {MISSING}")
        if any(missing for _, missing in rows):
            refuse_untrue(column, None)
        domains, flags = _flat(found, [values for values, _ in rows])
        seen = _seen(domains, np.array(flags, dtype=object), column)
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
    seen = None if spec.seen is None else _seen(domains, in_memory(spec.seen), SEEN)
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
    found, rows = _by_domain(table, names, moment, f"{both}, {MISSING}")
    absent = sum(missing for _, missing in rows)
    if absent:
        raise DomainDataError(
            f"The order column {order!r} is missing in {counted(absent, 'row')}. Fill it in, or "
            "drop the rows."
        )
    return _flat(found, [times for times, _ in rows])


def _flat(
    names: Sequence[Name], values: Sequence[Sequence[Any]]
) -> tuple[NumberedDomains, list[Any]]:
    """The values of all domains one after the other, with the domain of each."""
    ids = np.repeat(np.arange(len(values)), [len(each) for each in values])
    return NumberedDomains(ids, tuple(names)), [value for each in values for value in each]


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


def _seen(domains: NumberedDomains, values: NDArray[Any], column: str) -> frozenset[str]:
    """The domains whose rows all say that they were seen; raises where they disagree."""
    if values.shape != domains.ids.shape:
        raise DomainDataError(
            f"{column} must hold true or false for each of {len(domains.ids):,} rows, got the "
            f"shape {values.shape}."
        )
    flags = values
    if values.dtype.kind != "b":
        given = values.tolist()
        found = [TRUTH.get(v.strip().lower()) if isinstance(v, str) else v for v in given]
        for value, flag in zip(given, found, strict=True):
            if not isinstance(flag, bool):
                refuse_untrue(column, value)
        flags = np.array(found, dtype=bool)
    size = len(domains.names)
    yes = np.bincount(domains.ids[flags], minlength=size) > 0
    no = np.bincount(domains.ids[~flags], minlength=size) > 0
    both = [domains.names[i] for i in np.flatnonzero(yes & no)]
    if both:
        raise DomainDataError(
            f"The column {column!r} is true in some rows and false in others of "
            f"{named_domains(both)}. Training has seen a domain or not: use the domains that the "
            "model was trained with, or a part of each."
        )
    return frozenset(str(domains.names[i]) for i in np.flatnonzero(yes))


def _began(domains: NumberedDomains, times: Any, what: str) -> dict[str, Any]:
    spans = domain_spans(domains.ids, domains.names, times, what, order_remedy())
    return dict(zip(map(str, domains.names), spans.first, strict=True))
