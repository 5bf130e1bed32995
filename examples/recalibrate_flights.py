"""Predictions of a logistic regression for flights of days it has not seen, as a Parquet file.

    python examples/recalibrate_flights.py flights-predictions.parquet

The model is trained on a third of the days of 2013 for the mean risk, as one would train any
model; docs/recalibration.md corrects what it predicts for the other days.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.linear_model import LogisticRegression

from eqrm.data import load_flights
from eqrm.data.tables.encoder import TableEncoder


def main(path: Path) -> None:
    """Train, predict and write: day, late, p."""
    train, rest = load_flights().split(0.67, seed=0)
    encoder = TableEncoder.fit(train.columns)
    model = LogisticRegression(max_iter=1000)
    model.fit(encoder.transform(train.columns), train.target)
    table = rest.frame()[["day", "late"]]
    table["p"] = model.predict_proba(encoder.transform(rest.columns))[:, 1].round(6)
    table.to_parquet(path, index=False)
    print(f"{len(table):,} flights on {table.day.nunique()} days: {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
