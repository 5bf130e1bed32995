"""The flights of 2013 with the weather as twelve Parquet files, as a month at a time would bring.

    python examples/flights_by_month.py months

docs/tomorrows-flights.md trains on the first of them and watches the last.
"""

from __future__ import annotations

import sys
from pathlib import Path

from eqrm.data import load_flights


def main(folder: Path) -> None:
    """Write months/2013-01.parquet, …: day, late, and what is known before departure."""
    table = load_flights(weather=True).frame()
    folder.mkdir(parents=True, exist_ok=True)
    months = table.groupby(table["day"].str[:7])
    for month, rows in months:
        rows.to_parquet(folder / f"{month}.parquet", index=False)
    print(f"{len(table):,} flights of {table.day.nunique()} days in {len(months)} files: {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
