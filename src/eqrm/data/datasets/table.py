"""The user's own table as a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence

from eqrm.data.fetching.data_root import own_file
from eqrm.data.tables.reading import read_table
from eqrm.data.tables.table import Table


def table_of_file(
    root: str | os.PathLike[str] | None = None,
    *,
    file: str,
    target: str,
    domain: str,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    features: Sequence[str] | None = None,
    order: str | None = None,
) -> Table:
    """A CSV or Parquet file with a column for the target and one for the domain.

    It is read as ``eqrm train`` reads it.

    Args:
        root: the data root; it is not needed.
        file: the file, a pattern or a folder, looked for in the working directory and then in
            the data root.
        target: the column to predict.
        domain: the column that names each row's domain.
        drop: columns to leave out.
        categories: columns of numbers to read as categories.
        features: the input columns; by default all others.
        order: the column with the time of each row, a date or a number, for splits in time; not a
            feature unless it is listed.
    """
    return read_table(
        own_file(root, file),
        target,
        domain,
        features=features,
        drop=drop,
        categories=categories,
        order=order,
    )
