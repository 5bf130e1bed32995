"""What works without torch, as a program: ``python without_torch.py FOLDER [torch]``.

Every command and estimator that needs no network runs once, and leaves its numbers in the folder.
Without the word at the end, torch cannot be imported.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

FOLDER, WITH_TORCH = Path(sys.argv[1]), sys.argv[2:] == ["torch"]


class Absent:
    """An import hook: torch is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if WITH_TORCH:
    import torch

    torch.set_num_threads(1)
else:
    sys.meta_path.insert(0, Absent())  # type: ignore[arg-type]

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import pytest  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import eqrm  # noqa: E402
from eqrm import cli  # noqa: E402
from eqrm import distributions as laws  # noqa: E402
from eqrm.errors import MissingExtraError  # noqa: E402


def table(domains: int, seed: int) -> pd.DataFrame:
    """Rows of hospitals that differ, with days as their order."""
    rng = np.random.default_rng(seed)
    hospital = np.repeat(np.arange(domains), 30)
    a, b = rng.normal(size=(2, hospital.size))
    slope = rng.normal(size=domains)[hospital]
    y = rng.random(hospital.size) < 1 / (1 + np.exp(-a - slope * b))
    p = 1 / (1 + np.exp(-0.8 * a - 0.3 * b))
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(hospital, unit="D")
    columns = {"hospital": hospital, "day": day, "a": a, "b": b, "ill": y.astype(int), "p": p}
    return pd.DataFrame(columns | {"value": a + slope * b})


def run(*arguments: object, code: int = 0) -> None:
    """One command of the command line, in this process."""
    sys.argv = ["eqrm", *map(str, arguments)]
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code or 0) == code, arguments


def saved(name: str) -> tuple[object, ...]:
    """Options that write an evaluation as JSON."""
    return ("--format", "json", "--output", FOLDER / name)


def commands() -> None:
    """Every command for tables, in the order of a project."""
    rows, new = FOLDER / "rows.csv", FOLDER / "new.csv"
    table(40, 0).to_csv(rows, index=False)
    table(60, 1).to_csv(new, index=False)
    on = ("--domain", "hospital")
    predicted = (*on, "--target", "ill", "--prediction", "p")
    trained, linear = FOLDER / "trained", FOLDER / "linear"
    run("train", rows, "--target", "ill", *on, "--drop", "p,value,day", "--output", trained)
    one = ("--model", "linear", "--drop", "p,ill,day")
    run("train", rows, "--target", "value", *on, *one, "--output", linear)
    run("predict", trained, new, "--output", FOLDER / "predictions.csv")
    more = ("--superquantiles", 0.9, "--worst", 3, "--report", FOLDER / "report.html")
    run("evaluate", new, *predicted, *saved("evaluation.json"), *more)
    run("evaluate", new, *predicted, "--order", "day", *saved("in-time.json"))
    run("recalibrate", new, *predicted, "--save", FOLDER / "correction.json")
    run("compare", f"trained={trained}", f"again={trained}")
    window = ("--train", 20, "--certify", 29, "--judge", 5)
    time = ("--domain", "day", "--drop", "p,value,hospital", "--model", "linear")
    run("backtest", new, "--target", "ill", *time, *window, "--output", FOLDER / "backtest")
    watched = FOLDER / "a.watch"
    start = ("--start", FOLDER / "evaluation.json", "--alpha", 0.9)
    run("watch", watched, *start, *predicted)
    table(40, 4).assign(hospital=lambda t: t["hospital"] + 100).to_csv(rows, index=False)
    run("watch", watched, "--new", rows)
    run("plan", "--alpha", 0.9, "--domains", 40)
    run("figure", "risk-distribution", "--output", FOLDER / "figure.svg")
    run("data", "list")


def numbers() -> dict[str, object]:
    """Laws, certificates and estimators."""
    found: dict[str, object] = {}
    rng = np.random.default_rng(2)
    risks = rng.gamma(2.0, 0.3, (3, 12))
    weights = rng.random(12)
    for kind in (laws.KDE, laws.Empirical, laws.Gaussian, laws.LogNormal):
        for given in (None, weights):
            law = kind(risks, weights=given)
            values = [law.quantile(level) for level in (0.3, 0.9, "1-e^-50")]
            values += [law.cdf(np.full((3, 1), 0.7)), law.superquantile(0.8)]
            name = f"{kind.__name__}, weights {given is not None}"
            found[name] = np.hstack([*map(np.ravel, values)]).tolist()
    many = rng.gamma(2.0, 0.3, 80)
    found["certificate"] = eqrm.evaluation.quantile_bound(many, 0.9, 0.95).to_dict()
    frame = table(40, 3)
    X, groups = frame[["a", "b"]].to_numpy(), frame["hospital"].to_numpy()
    y, value = frame["ill"].to_numpy(), frame["value"].to_numpy()
    for name in ("QRMClassifier", "LGBMQRMClassifier", "XGBQRMClassifier"):
        for measure in ("quantile", "superquantile", "worst", "mean"):
            kind = getattr(eqrm.estimators, name)
            model = kind(0.9, measure=measure, random_state=0).fit(X, y, groups)
            found[f"{name}, {measure}"] = model.domain_risks_.tolist()
            path = FOLDER / f"{name}.safetensors"
            eqrm.save_model(model, path)
            assert (eqrm.load(path).predict_proba(X) == model.predict_proba(X)).all()
    found["QRMRegressor"] = eqrm.QRMRegressor(0.9).fit(X, value, groups).domain_risks_.tolist()
    moments = eqrm.linear.DomainMoments.from_arrays(X, value, groups)
    found["LinearQRM"] = eqrm.LinearQRM(0.9).fit(moments).coef_.tolist()
    plain = LogisticRegression().fit(X, y)
    judged = eqrm.evaluate_model(LogisticRegression(), X, y, groups, cv=5)
    found["cross-fitted"] = judged.to_dict()["models"]
    corrected = eqrm.Recalibrated(plain, alpha=0.9).fit(X, y, groups)
    found["recalibrated"] = corrected.domain_risks_.tolist()
    return found


def refusals() -> None:
    """What needs the extra says so in one sentence."""
    needed = "needs 'torch', which is not installed. Install it with: pip install 'eqrm[torch]'"
    frame = table(40, 3)
    rows = frame[["a", "b"]].to_numpy(), frame["ill"].to_numpy(), frame["hospital"].to_numpy()
    for what in (
        lambda: eqrm.EQRM(0.9),
        lambda: eqrm.objectives.VREx(),
        lambda: eqrm.training.Trainer,
        lambda: eqrm.QRMClassifier(0.9, model="mlp").fit(*rows),
        lambda: eqrm.QRMClassifier(0.9, domains_per_batch=5).fit(*rows),
        lambda: eqrm.QRMRegressor(0.9, bandwidth="silverman").fit(*rows),
    ):
        with pytest.raises(MissingExtraError, match=re.escape(needed)):
            what()
    configuration = FOLDER / "run.yaml"
    configuration.write_text("data: {dataset: flights}\n")
    run("train-network", configuration, code=2)
    run("sweep", "run", configuration, code=2)
    with pytest.raises(MissingExtraError, match="'flights' as tensors needs 'torch'"):
        eqrm.dataset("flights")


commands()
(FOLDER / "numbers.json").write_text(json.dumps(numbers()))
if not WITH_TORCH:
    refusals()
    assert "torch" not in sys.modules
