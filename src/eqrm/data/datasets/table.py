"""The datasets that are tables: a file of one's own, and the flights that come with eqrm."""

from __future__ import annotations

import os
from collections.abc import Sequence

from eqrm.data.datasets.flights import load_flights
from eqrm.data.fetching.data_root import own_file
from eqrm.data.tables.reading import read_table
from eqrm.data.tables.table import Table


def flights_table(root: str | os.PathLike[str] | None = None, *, weather: bool = False) -> Table:
    """Flights out of New York in 2013: late by more than 15 minutes or not, a domain per day.

    They come with the package, so the data root is not looked at. ``weather`` adds the hourly
    weather. See :func:`eqrm.data.load_flights`.
    """
    return load_flights(weather=weather)


def table_of_file(
    root: str | os.PathLike[str] | None = None,
    *,
    file: str,
    target: str,
    domain: str,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> Table:
    """A CSV or Parquet file with a column for the target and one for the domain.

    It is read as ``eqrm train`` reads it.

    Args:
        root: the data root; it is not needed.
        file: the file, a pattern or a folder, looked for in the working directory and then in
            the data root.
        target: the column to predict.
        domain: the column that names each row's domain.
        features: the input columns; by default all others.
        drop: columns to leave out.
        categories: columns of numbers to read as categories.
    """
    return read_table(
        own_file(root, file),
        target,
        domain,
        features=features,
        drop=drop,
        categories=categories,
    )
