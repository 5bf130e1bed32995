"""The linear estimators on all flights: exact optima, speed, saving; versions of scikit-learn."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn import functional
from verify.registry import ROOT, Options, Result, check, passed, run_program, run_tests, skipped

import eqrm
from eqrm import QRMClassifier
from eqrm.data.datasets.tables import load_flights
from eqrm.data.tables.encoder import TableEncoder

ROUTED_TESTS = ("pipelines_and_searches", "sklearn_conformity")


def flights_matrix() -> tuple[Any, Any, Any]:
    flights = load_flights()
    X = TableEncoder.fit(flights.columns).transform(flights.columns)
    return X, flights.target, flights.domains


def by_other_means(X: Any, y: Any, days: Any, alpha: float, l2: float, start: Any) -> Any:
    """scipy's L-BFGS on the EQRM objective in torch, from the raw rows."""
    _, ids = np.unique(days, return_inverse=True)
    spread = X.std(axis=0)
    rows, signs = torch.from_numpy((X - X.mean(axis=0)) / spread), torch.from_numpy(1.0 - 2.0 * y)
    groups, objective = torch.from_numpy(ids), eqrm.EQRM(alpha)

    def value(flat: Any) -> tuple[float, Any]:
        theta = torch.from_numpy(flat).clone().requires_grad_()
        losses = functional.softplus(signs * (rows @ theta[:-1] + theta[-1]))
        found = objective(losses, groups, int(ids.max()) + 1) + l2 * (theta[:-1] ** 2).sum()
        found.backward()
        return float(found.detach()), theta.grad.numpy()  # type: ignore[union-attr]

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-16, "gtol": 1e-9}
    return minimize(value, start, jac=True, method="L-BFGS-B", options=options), value


@check("estimators.optimum", "logistic regression ends where scipy's L-BFGS ends, or lower")
def optimum(options: Options) -> Result:
    X, y, days = flights_matrix()
    l2, lines, good = 1e-4, [], True
    erm, *models = QRMClassifier(l2=l2).fit_levels([None, 0.5, 0.9, 0.99], X, y, days)

    def standardised(model: Any) -> Any:
        beta = model.coef_[0]
        return np.append(beta * X.std(axis=0), model.intercept_ + beta @ X.mean(axis=0))

    for model in models:
        # At 0 all risks are equal, a kink that L-BFGS does not leave.
        start = standardised(erm)
        end, value = by_other_means(X, y, days, model.level_.alpha, l2, start)
        own = standardised(model)
        ours, slope = value(own)
        good &= ours <= end.fun + 1e-8 and float(np.abs(slope).max()) < 1e-6 and model.converged_
        lines.append(
            f"α = {model.level_}: ours {ours:.9f} (largest slope {np.abs(slope).max():.0e}, "
            f"{model.n_iter_} steps), L-BFGS from ERM {end.fun:.9f} ({end.nit} steps)"
        )
    return passed(good, "; ".join(lines))


@check("estimators.saving", "a saved model of all flights predicts the same digits when loaded")
def saved(options: Options) -> Result:
    X, y, days = flights_matrix()
    model = QRMClassifier(0.9).fit(X, y, groups=days)
    with tempfile.TemporaryDirectory(prefix="eqrm-") as folder:
        path = Path(folder) / "flights.safetensors"
        eqrm.save_model(model, path)
        again, size = eqrm.load_model(path), path.stat().st_size
    same = bool((again.predict_proba(X) == model.predict_proba(X)).all())
    return passed(same, f"{len(y):,} predictions compared; the file has {size:,} bytes")


@check(
    "estimators.scikit-learn",
    "pipelines, searches and routing with the oldest and the newest scikit-learn",
)
def scikit_learn_versions(options: Options) -> Result:
    """The oldest version is that of pyproject.toml, the newest the package index's latest."""
    stated = re.search(r'"scikit-learn>=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    if stated is None:
        raise RuntimeError("pyproject.toml names no oldest scikit-learn")
    lines, good, tests = [], True, 0
    for age, wanted in (("oldest", f"scikit-learn=={stated[1]}.0"), ("newest", "scikit-learn")):
        with tempfile.TemporaryDirectory(prefix="eqrm-sklearn-") as folder:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
            log = f"scikit-learn-{age}-install"
            installed = run_program(options, log, [*pip, "--target", folder, wanted])
            if installed.code:
                return skipped(f"{wanted} could not be installed: {installed.last_lines()}")
            (about,) = Path(folder).glob("scikit_learn-*.dist-info")
            files = [f"tests/estimators/test_{name}.py" for name in ROUTED_TESTS]
            found = run_tests(
                options, f"scikit-learn-{age}", *files, "-m", "", libraries=Path(folder)
            )
        version = about.stem.partition("-")[2]
        lines.append(f"{version}: {found.summary}")
        good &= found.status == "PASS"
        tests += int(str(found.details.get("tests", 0)))
    return passed(good, "; ".join(lines), tests=tests)
