"""One measured world, given to ``evaluate`` in every way there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

NAMES = ["Oslo", 'Ro"me', "x'; DROP TABLE y;--", "<script>alert(1)</script>", "😀"]
LONG = "a" * 10_000


def world(rows: int = 1500, seed: int = 0) -> pd.DataFrame:
    """Labels, two models' probabilities, and the log-loss of the first, by hospital."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "hospital": generator.choice(NAMES, rows),
            "ward": generator.integers(0, 12, rows),
            "y": generator.integers(0, 2, rows),
            "erm": generator.uniform(0.01, 0.99, rows),
            "eqrm": generator.uniform(0.2, 0.8, rows),
        }
    )
    frame.loc[[5, 500, 1000], "hospital"] = LONG
    frame["loss"] = -np.log(np.where(frame.y == 1, frame.erm, 1 - frame.erm))
    return frame


def as_parquet(frame: pd.DataFrame, folder: Path) -> Any:
    path = folder / "measured.parquet"
    frame.to_parquet(path, index=False)
    return path


def as_csv(frame: pd.DataFrame, folder: Path) -> Any:
    path = folder / "measured.csv"
    frame.to_csv(path, index=False)
    return path


def as_parts(frame: pd.DataFrame, folder: Path) -> Any:
    """Three Parquet files, by a pattern."""
    for i in range(3):
        frame.iloc[i::3].to_parquet(folder / f"part-{i}.parquet", index=False)
    return str(folder / "part-*.parquet")


def as_frame(frame: pd.DataFrame, folder: Path) -> Any:
    return frame


def assert_same(found: Any, wanted: pd.DataFrame, rel: float = 1e-13) -> None:
    """Counts, means and variances of losses are those that pandas gives by domain."""
    assert list(found.domains) == list(wanted.index)
    assert found.counts.tolist() == wanted["count"].tolist()
    np.testing.assert_allclose(found.risks, wanted["mean"], rtol=rel)
    np.testing.assert_allclose(found.variances, wanted["var"], rtol=10 * rel)


Route = Callable[[pd.DataFrame, Path], Any]
ROUTES: dict[str, Route] = {
    "parquet": as_parquet,
    "csv": as_csv,
    "parts": as_parts,
    "frame": as_frame,
}
