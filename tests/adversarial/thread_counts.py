"""What the package computes with one thread and with several.

Sums of floats depend on their order, and with it on the number of threads that share them. So some
results are the same to the last bit, others up to rounding (``BOUNDS``), and training is the same
for the same number of threads only.

    OMP_NUM_THREADS=4 python -m adversarial.thread_counts FOLDER

writes ``FOLDER/NAME.npy`` for each computation. Sizes are large enough for torch, BLAS, DuckDB,
XGBoost and LightGBM to share the work between threads.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

import eqrm
from eqrm.data import DomainBatches, DomainData
from eqrm.predictors import MLP
from eqrm.training import Phase, Trainer, TrainingSettings

Floats = npt.NDArray[np.float64]
DOMAINS, ROWS, FEATURES = 60, 1_500, 20
BOUNDS = {
    "quantiles": 1e-13,
    "evaluation": 1e-13,
    "printed tables": 0.0,
    "linear": 1e-9,
    "recalibration": 1e-9,
    "xgboost": 1e-6,
    "lightgbm": 1e-9,
    "first step": 1e-4,
    "training": math.inf,
}
"""The largest relative difference between numbers of threads.

None is promised for training: float32, Adam and ReLUs amplify rounding step by step.
"""


def _world() -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(DOMAINS), ROWS)
    x = rng.normal(size=(DOMAINS * ROWS, FEATURES))
    slope = rng.normal(1.0, 0.7, DOMAINS)[domains]
    y = (x[:, 0] + slope * x[:, 1] + rng.normal(size=len(domains)) > 0).astype(np.int64)
    return x, y, domains


def quantiles() -> Floats:
    """Values and gradients of KDE, Gaussian and Empirical, of one row and of several."""
    found = []
    rng = np.random.default_rng(1)
    for size in ((100_000,), (64, 3_000)):
        risks = torch.from_numpy(rng.lognormal(size=size))
        for law in (eqrm.KDE, eqrm.Gaussian, eqrm.Empirical):
            leaf = risks.clone().requires_grad_()
            value = law(leaf).quantile(eqrm.Level(0.9)).sum()
            (gradient,) = torch.autograd.grad(value, leaf)
            found += [value.item(), *gradient.flatten().tolist()]
    return np.array(found)


def evaluation(folder: Path) -> Floats:
    """Risks, certificates and intervals of a file, read by several threads."""
    x, y, domains = _world()
    p = 1.0 / (1.0 + np.exp(-x[:, 0] - x[:, 1]))
    path = folder / "rows.parquet"
    pd.DataFrame({"d": domains, "y": y, "p": p}).to_parquet(path, row_group_size=5_000)
    threads = int(os.environ["OMP_NUM_THREADS"])
    found = eqrm.evaluate(path, domains="d", target="y", predictions="p", threads=threads)
    (measured,) = found.models.values()
    bound = found.certificate(0.9).bound
    (folder / "table.txt").write_text(str(found.risk_table()), encoding="utf-8")
    return np.array([bound, *measured.risks])


def printed(folder: Path) -> Floats:
    """The table that is printed of it."""
    return np.array([*(folder / "table.txt").read_bytes()], dtype=np.float64)


def linear() -> Floats:
    """Coefficients of logistic and least-squares models."""
    x, y, domains = _world()
    classifier = eqrm.QRMClassifier(alpha=0.9).fit(x, y, groups=domains)
    regressor = eqrm.QRMRegressor(alpha=0.9).fit(x, x[:, 0] + y, groups=domains)
    return np.concatenate([np.ravel(classifier.coef_), np.ravel(regressor.coef_)])


def boosting(library: str) -> Floats:
    """Predictions of boosted trees."""
    x, y, domains = _world()
    kind = eqrm.XGBQRMClassifier if library == "xgboost" else eqrm.LGBMQRMClassifier
    fitted: Any = kind(alpha=0.9, n_estimators=20).fit(x, y, groups=domains)
    return np.asarray(fitted.predict_proba(x), dtype=np.float64)


def training(*steps: int) -> Floats:
    """Weights of a network after some steps of ERM, and then of EQRM."""
    x, y, domains = (torch.from_numpy(each) for each in _world())
    data = DomainData(x.float(), y, domains, tuple(f"d{i}" for i in range(DOMAINS)))
    torch.manual_seed(0)
    network = MLP(FEATURES, 2, width=256, depth=3)
    objectives = ("erm", eqrm.EQRM(0.9))
    phases = [Phase(each, n, 1e-3) for each, n in zip(objectives, steps, strict=False)]
    settings = TrainingSettings(device="cpu", tensorboard=False)
    Trainer(network, data, phases, DomainBatches(data, 20, 200, seed=0), settings=settings).fit()
    weights = [each.detach().double().numpy().ravel() for each in network.parameters()]
    return np.concatenate(weights)


def recalibration() -> Floats:
    """A correction of predictions."""
    x, y, domains = _world()
    p = 1.0 / (1.0 + np.exp(-x[:, 0] - x[:, 1]))
    fitted: Any = eqrm.Recalibrated(alpha=0.9).fit(p, y, groups=domains)
    return np.asarray(fitted.predict_proba(p), dtype=np.float64)


def computations(folder: Path) -> dict[str, Callable[[], Floats]]:
    return {
        "quantiles": quantiles,
        "evaluation": lambda: evaluation(folder),
        "printed tables": lambda: printed(folder),
        "linear": linear,
        "xgboost": lambda: boosting("xgboost"),
        "lightgbm": lambda: boosting("lightgbm"),
        "first step": lambda: training(1),
        "training": lambda: training(10, 20),
        "recalibration": recalibration,
    }


def difference(one: Path, other: Path, name: str) -> float:
    """The largest difference of a result in two folders, relative to each number or the median."""
    first, second = (np.load(folder / f"{name}.npy") for folder in (one, other))
    if first.shape != second.shape:
        return math.inf
    size = np.maximum(np.abs(first), np.median(np.abs(first)))
    return float((np.abs(first - second) / size).max())


def main(folder: str, *names: str) -> None:
    """Compute and save everything, or what is named."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    found = computations(place)
    for name in names or found:
        np.save(place / f"{name}.npy", found[name]())


if __name__ == "__main__":
    main(*sys.argv[1:])
