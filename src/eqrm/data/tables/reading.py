"""Read columns of CSV and Parquet files into memory, and decide the kind of each column.

Every column of a CSV file arrives as text. It holds numbers if all its values are numbers; if most
are, the others are reported as an error; otherwise it holds categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.files import TableFiles, fetched_list, opened, quoted
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.table import (
    MISSING_NUMBERS,
    NO_ROWS,
    Column,
    Table,
    is_numbers,
    is_padded,
    number_of,
)
from eqrm.domains import DomainKey, NumberedDomains, joined_columns, number_domains
from eqrm.errors import DomainDataError, MissingExtraError

MEMORY = "2GB"
BATCH = 100_000
COLUMNS_AT_ONCE = 2000
"""DuckDB takes 32 KB and more for each column of a query."""
LONG_TEXT, MOST_TEXT = 1000, 1 << 28
"""Characters of one entry, and bytes of a column of text, beyond which it is not read."""
TRUTH = {"true": 1.0, "false": 0.0}
"""Booleans, in lower case. Read as numbers, as in Parquet files."""
TARGET, DOMAIN = "target", "domain"
_TEXT = ("VARCHAR", "ENUM", "UUID")
_NOT_FEATURES = ("DATE", "TIME", "INTERVAL", "STRUCT", "MAP", "LIST", "UNION", "BLOB", "BIT")
SHOWN = 3


def read_table(
    files: str | Path | Sequence[str | Path],
    target: str,
    domain: str | Sequence[str],
    *,
    within: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    order: str | None = None,
) -> Table:
    """A table from CSV or Parquet files, patterns or folders.

    Several columns of ``domain`` are joined into one domain, as in :func:`eqrm.evaluate`, and
    ``"filename"`` makes each file a domain. With ``within`` the domains are nested: ``domain`` are
    the columns of the groups (hospital), ``within`` those of their members (ward), which are the
    domains.

    ``features`` are all columns but target, domain, ``order`` and ``drop``, unless they are listed.
    ``categories`` are columns to take as categories although they look like numbers. ``order`` is
    the column with the time of each row, for :meth:`Table.in_time`; it may be the domain.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "stays.csv"
    >>> _ = path.write_text("hospital,age,ward,died\\n1,31,A,0\\n1,57,B,1\\n02,,A,0\\n")
    >>> table = read_table(path, target="died", domain="hospital")
    >>> table.columns["age"], table.columns["ward"], table.domains
    (array([31., 57., nan]), array(['A', 'B', 'A'], dtype='<U1'), array(['1', '1', '02'], ...))
    """
    key = DomainKey.of(domain, within)
    with opened(_listed(files), None, MEMORY) as source:
        order = None if (order,) == key.columns else order
        given = () if order is None else (order,)
        for name in (target, *given, *(features or ()), *drop, *categories):
            source.column(name)
        for name, what in (*((each, "domain") for each in key.columns), (order, "order")):
            if target == name:
                raise DomainDataError(f"Target and {what} cannot be the same column, {target!r}.")
        names = _feature_names(
            source, target, key.columns, features, (*drop, *(given if features is None else ()))
        )
        kinds = {name: "category" if name in categories else "" for name in names}
        columns = _columns(source, {**kinds, target: TARGET, **dict.fromkeys(key.columns, DOMAIN)})
        # Apart: as a feature the same column is of another kind.
        times = None if order is None else _columns(source, {order: DOMAIN})[order]
    return Table(
        {name: columns[name] for name in names},
        columns[target],
        _joined(columns, key.columns),
        target_name=target,
        domain_name=key.label,
        order=times,
        order_name=order or "order",
        key=key if len(key.columns) > 1 else None,
    )


def read_test_table(files: str | Path | Sequence[str | Path], like: Table) -> Table:
    """The same columns from other files, each of the kind that it has in this table."""
    kinds = dict.fromkeys(like.numbers, "number") | dict.fromkeys(like.categories, "category")
    target = "number" if is_numbers(like.target) else "category"
    wanted = {**kinds, like.target_name: target, **dict.fromkeys(like.domain_columns, DOMAIN)}
    columns = read_columns(files, wanted)
    return Table(
        {name: columns[name] for name in like.columns},
        columns[like.target_name],
        _joined(columns, like.domain_columns),
        like.target_name,
        like.domain_name,
        key=like.key,
    )


def _joined(columns: Mapping[str, Column], names: Sequence[str]) -> Column:
    """The domains that columns of this table name."""
    what = f"The domains ({' and '.join(names)!r})"
    found: Column = joined_columns([columns[name] for name in names], what)
    return found


def read_columns(
    files: str | Path | Sequence[str | Path],
    kinds: Mapping[str, str],
    also: Sequence[str] = (),
) -> dict[str, Column]:
    """Columns by name: ``kinds`` says which hold a "number" and which a "category".

    Columns of ``also`` that exist are read as text. Missing columns are reported by name.
    """
    with opened(_listed(files), None, MEMORY) as source:
        refuse_absent(list(kinds), list(source.types))
        if source.fetched(f"SELECT COUNT(*) AS rows FROM {source.source}")["rows"][0] == 0:
            raise DomainDataError(NO_ROWS)
        extra = {name: "category" for name in also if name in source.types and name not in kinds}
        return _columns(source, {**kinds, **extra})


def read_domains(
    files: str | Path | Sequence[str | Path], names: Sequence[str]
) -> NumberedDomains | None:
    """The domain of each row, by these columns; None where the table does not have them."""
    with opened(_listed(files), None, MEMORY) as source:
        if any(name not in source.types and not source.is_filename(name) for name in names):
            return None
        held = _joined(_columns(source, dict.fromkeys(names, DOMAIN)), names)
    return number_domains(held, what=f"The domains ({' and '.join(names)!r})")


def read_texts(
    files: str | Path | Sequence[str | Path], names: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Columns as lists of strings, "" where missing; all columns by default.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "molecules.csv"
    >>> _ = path.write_text("smiles,active\\nCCO,1\\n\\nCO,\\n")
    >>> read_texts(path, ["active", "smiles"])
    {'active': ['1', ''], 'smiles': ['CCO', 'CO']}
    """
    with opened(_listed(files), None, MEMORY) as source:
        kinds = dict.fromkeys(source.types if names is None else names, "category")
        return {name: column.tolist() for name, column in _columns(source, kinds).items()}


def read_as_stored(files: str | Path | Sequence[str | Path], names: Sequence[str]) -> Any:
    """Columns as an Arrow table, with the types they have in the files (text in CSV files)."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables", "Writing Parquet files") from error
    with opened(_listed(files), None, MEMORY) as source:
        wanted = ", ".join(source.column(name) for name in names)
        return pyarrow.Table.from_batches(
            source.batches(f"SELECT {wanted} FROM {source.source}", BATCH)
        )


def _listed(files: str | Path | Sequence[str | Path]) -> list[str | Path]:
    return [files] if isinstance(files, (str, Path)) else list(files)


def _feature_names(
    source: TableFiles,
    target: str,
    domain: Sequence[str],
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> list[str]:
    names = list(source.types if features is None else dict.fromkeys(features))
    for name in (target, *domain):
        if features is not None and name in names:
            raise DomainDataError(
                f"The column {name!r} is the target or the domain and cannot be a feature."
            )
    chosen = [name for name in names if name not in (target, *domain, *drop)]
    if not chosen:
        raise DomainDataError(
            f"The table has no feature columns besides the target {target!r} and the domain "
            f"{' and '.join(map(repr, domain))}."
        )
    return chosen


def _columns(source: TableFiles, kinds: Mapping[str, str]) -> dict[str, Column]:
    wanted = [_expression(source, name, kind) for name, kind in kinds.items()]
    found: dict[str, Any] = {}
    for start in range(0, len(wanted), COLUMNS_AT_ONCE):
        part = ", ".join(wanted[start : start + COLUMNS_AT_ONCE])
        found |= source.fetched(f"SELECT {part} FROM {source.source}")
    columns = {}
    for name, kind in kinds.items():
        values = found[name]
        if kind == DOMAIN:  # named, and refused where missing, by the table
            columns[name] = np.array(fetched_list(values), dtype=object)
        elif values.dtype.kind == "O":
            text = _as_text(values, name)
            columns[name] = text if kind == "category" else _numbers_or_text(name, text, kind)
        else:
            columns[name] = np.ma.filled(values.astype(np.float64), np.nan)
    return columns


def _expression(source: TableFiles, name: str, kind: str) -> str:
    """A column as text if it is or should be text, as a double if it holds numbers."""
    if kind == DOMAIN:
        return f"{source.domain(name)} AS {quoted(name)}"
    identifier, type_name = source.column(name), source.types[name]
    if kind == "category" or type_name.startswith(_TEXT):
        return f"CAST({identifier} AS VARCHAR) AS {quoted(name)}"
    if type_name.startswith(_NOT_FEATURES) or type_name.endswith("]"):
        raise DomainDataError(
            f"Column {name!r} has the type {type_name}, neither numbers nor text. Leave it out, or "
            "convert it (a date to its month, for example)."
        )
    return f"CAST({identifier} AS DOUBLE) AS {quoted(name)}"


def _as_text(values: Any, name: str) -> NDArray[np.str_]:
    """Text in an array, where every entry takes the space of the longest."""
    filled = np.ma.filled(values, "") if isinstance(values, np.ma.MaskedArray) else values
    texts = ["" if value is None else value for value in filled.tolist()]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    row = int(sizes.argmax()) if len(texts) else 0
    if len(texts) and sizes[row] > LONG_TEXT and 4 * len(texts) * int(sizes[row]) > MOST_TEXT:
        raise DomainDataError(
            f"Column {name!r} has {sizes[row]:,} characters in row {row + 1:,}, too many for a "
            f"column of {len(texts):,} rows. Shorten them, or leave the column out."
        )
    return np.array(texts, dtype=str)


def _numbers_or_text(name: str, text: NDArray[np.str_], kind: str) -> Column:
    """Numbers if all values are; an error if most are, or must be; else the text itself."""
    distinct, place = np.unique(text, return_inverse=True)
    parsed = [number_of(value) for value in distinct.tolist()]
    if kind != TARGET and (truth := _truth(distinct.tolist())) is not None:
        parsed = truth
    wrong = np.array([number is None for number in parsed])
    if not wrong.any():
        found: Column = np.array(parsed, dtype=np.float64)[place]
        return found
    in_rows = wrong[place]
    present = np.char.strip(text) != ""
    # An identifier such as 007 is not a number: as one, it would be the same as 7.
    odd = [value for value in distinct[wrong].tolist() if not is_padded(value)]
    mostly_numbers = (present & ~in_rows).sum() > in_rows.sum() and len(odd) == wrong.sum()
    if kind == "number" or mostly_numbers:
        shown = ", ".join(repr(value) for value in (odd or distinct[wrong].tolist())[:SHOWN])
        where = (
            f"{shown}, in {in_rows.sum():,} of {len(text):,} rows (first: row "
            f"{np.flatnonzero(in_rows)[0] + 1:,})"
        )
        raise DomainDataError(
            f"Column {name!r} held numbers in training, but here it holds {where}. Convert them to "
            "numbers; leave missing values empty."
            if kind == "number"
            else f"Column {name!r} holds numbers, but also {where}. Leave missing values empty, or "
            f"read the column as categories (--category {name})."
        )
    return text


def _truth(distinct: list[str]) -> list[float | None] | None:
    """1 and 0 if all values are booleans or missing, otherwise None.

    >>> _truth(["False", "TRUE"]), _truth(["no", "true"])
    ([0.0, 1.0], None)
    """
    bare = [value.strip().lower() for value in distinct]
    if not any(value in TRUTH for value in bare):
        return None
    if not all(value in TRUTH or value in MISSING_NUMBERS for value in bare):
        return None
    return [TRUTH.get(value, float("nan")) for value in bare]
