"""Issue 6, estimators: scikit-learn's checks, exact optima, speed, saving, refusals."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn import functional
from verify.objectives import run_benchmark, run_tests
from verify.registry import Options, Result, check, passed

import eqrm
from eqrm import QRMClassifier
from eqrm.data.datasets.flights import load_flights
from eqrm.data.tables.encoder import TableEncoder

TESTS = "tests/estimators"


@check("6.3.checks", "scikit-learn's check_estimator passes for all estimators")
def conformity(options: Options) -> Result:
    counts = run_tests(options, "estimators-checks", f"{TESTS}/test_sklearn_conformity.py")
    return counts.result("every estimator, networks and other settings")


@check("6.3.tables", "routing, searches, pipelines, frames, saving without pickle, groups=None")
def tables(options: Options) -> Result:
    names = ("groups", "estimators", "selection", "model_files", "networks", "logistic_risks")
    paths = [f"{TESTS}/test_{name}.py" for name in names]
    counts = run_tests(options, "estimators-tables", *paths)
    return counts.result("groups, tables, selection, files, networks, optima")


def flights_matrix() -> tuple[Any, Any, Any]:
    flights = load_flights()
    X = TableEncoder.fit(flights.columns).transform(flights.columns)
    return X, flights.target, flights.domains


def by_other_means(X: Any, y: Any, days: Any, alpha: float, l2: float, start: Any) -> Any:
    """L-BFGS of scipy on the EQRM objective of torch, from the raw rows."""
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


@check("6.3.optimum", "the flights' logistic regression is where another optimiser ends, or lower")
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


@check("6.5", "all flights, linear, 6 levels: at most 20 s and 2 x LogisticRegression x 6")
def speed(options: Options) -> Result:
    code, content = run_benchmark(options, "estimator_speed")
    plain: dict[str, dict[str, float]] = content["plain"]  # type: ignore[assignment]
    ours, theirs = plain.values()
    return passed(
        code == 0,
        f"6 levels on {content['rows']:,} rows {ours['seconds']:.1f} s "
        f"({ours['processor_seconds']:.1f} s of processors), LogisticRegression x 6 "
        f"{theirs['seconds']:.1f} s ({theirs['processor_seconds']:.1f}): ratio "
        f"{content['ratio']:.2f}",
    )


@check("6.7.estimators", "groups, domains, classes and values that cannot be used are refused")
def refusals(options: Options) -> Result:
    chosen = "refused or announced or named or one_class"
    counts = run_tests(options, "estimators-refusals", TESTS, "-k", chosen)
    return counts.result("refusals and stated handling")


@check("6.3.saved", "a model of all flights comes back from its file, digit for digit")
def saved(options: Options) -> Result:
    X, y, days = flights_matrix()
    model = QRMClassifier(0.9).fit(X, y, groups=days)
    with tempfile.TemporaryDirectory(prefix="eqrm-") as folder:
        path = Path(folder) / "flights.safetensors"
        eqrm.save_model(model, path)
        again, size = eqrm.load_model(path), path.stat().st_size
    same = bool((again.predict_proba(X) == model.predict_proba(X)).all())
    return passed(same, f"{len(y):,} predictions are the same; the file has {size:,} bytes")
