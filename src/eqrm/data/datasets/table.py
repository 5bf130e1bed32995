"""Tables as datasets: numbers standardised, categories one-hot, a domain per row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eqrm.data.datasets.flights import load_flights
from eqrm.data.domain_data import DomainData
from eqrm.data.fetching.data_root import own_file
from eqrm.data.tables.encoder import TableEncoder
from eqrm.data.tables.published_csv import refusing_damage
from eqrm.data.tables.table import Table, is_numbers
from eqrm.errors import DataFileError, MissingExtraError, near_names


def from_table(table: Table, encoder: TableEncoder | None = None) -> DomainData:
    """A :class:`eqrm.data.Table` as a dataset; x is (n, features) float32.

    Means, scales and categories are those of ``encoder``, or of the table itself. A target of
    text, or of 0 and 1, becomes the number of its class; other numbers stay numbers.

    >>> table = Table({"age": [31, 57], "ward": ["A", "B"]}, [0, 1], ["Rome", "Oslo"])
    >>> data = from_table(table)
    >>> data.x.shape, data.y, data.names
    (torch.Size([2, 3]), tensor([0, 1]), ('Oslo', 'Rome'))
    """
    encoder = TableEncoder.fit(table.columns) if encoder is None else encoder
    x = torch.from_numpy(encoder.transform(table.columns)).float()
    ids = np.unique(table.domains, return_inverse=True)[1].reshape(-1)
    classes: tuple[str, ...] = ()
    if not is_numbers(table.target):
        found, numbers = np.unique(table.target, return_inverse=True)
        classes, y = tuple(map(str, found)), torch.from_numpy(numbers.reshape(-1))
    elif np.isin(table.target, (0, 1)).all():
        y = torch.from_numpy(table.target).long()
    else:
        y = torch.from_numpy(table.target).float()
    return DomainData(x, y, torch.from_numpy(ids), table.domain_names, classes, notes=encoder.notes)


def flights(root: str | os.PathLike[str] | None = None, *, weather: bool = False) -> DomainData:
    """Flights out of New York in 2013: late by more than 15 minutes or not, a domain per day.

    They come with the package, so the data root is not looked at. ``weather`` adds the hourly
    weather. See :func:`eqrm.data.load_flights`.
    """
    return from_table(load_flights(weather=weather))


def table(
    root: str | os.PathLike[str] | None = None, *, file: str, target: str, domain: str
) -> DomainData:
    """A CSV or Parquet file with a column for the target and one for the domain.

    All other columns are inputs. Means, scales and categories are those of the whole file; what
    is done about missing values and columns of one value is in the data's ``notes``.

    Args:
        root: the data root; it is not needed.
        file: the file, looked for in the working directory and then in the data root; a name
            that ends in .parquet is Parquet, anything else CSV.
        target: the column to predict.
        domain: the column that names each row's domain.
    """
    frame = _read(own_file(root, file), domain)
    for name in (target, domain):
        if name not in frame.columns:
            raise DataFileError(f"{file} has no column {name!r}. {near_names(name, list(frame))}")
    inputs = {name: frame[name].to_numpy() for name in frame if name not in (target, domain)}
    return from_table(
        Table(inputs, frame[target].to_numpy(), frame[domain].to_numpy(), target, domain)
    )


def _read(path: Path, domain: str) -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("pandas", "tables", "Reading tables") from None
    with refusing_damage(path):
        try:
            if path.suffix == ".parquet":
                return pandas.read_parquet(path)
            # The domains 007 and 7 are two.
            return pandas.read_csv(path, dtype={domain: "str"})
        except ValueError as error:  # pandas' and pyarrow's errors of reading are ValueErrors
            reason = str(error).splitlines()[0]
            raise DataFileError(f"{path} cannot be read as a table: {reason}") from None
