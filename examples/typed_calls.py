"""The commonest calls with their types: ``mypy --strict`` needs no Any and no cast here."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

import eqrm
from eqrm.evaluation import Certificate, quantile_bound


def answers(folder: Path) -> list[str]:
    """A training, its files, an evaluation, a certificate, an estimator and a law."""
    rng = np.random.default_rng(0)
    hospital = np.repeat(np.arange(40), 20)
    x: npt.NDArray[np.float64] = rng.normal(size=(800, 2))
    ill = x[:, 0] + rng.normal(size=800) > 0.0
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "hospital": hospital, "ill": ill})
    trained = eqrm.train(frame, "ill", "hospital", alpha=0.8, model="linear", output=folder)
    change: float = trained.decision.change
    expected: Certificate | None = trained.expected
    predictions: pd.DataFrame = trained.predict(frame)
    saved = eqrm.load(folder / "evaluation.json", eqrm.Evaluation)
    bound: float = saved.certificate(0.8).bound
    judged = eqrm.evaluate(ill, predictions["p_1"], hospital, alpha=0.8)
    risks: npt.NDArray[np.float64] = judged["model"].risks
    sentence: str = quantile_bound(risks, 0.8).sentence
    model = eqrm.QRMClassifier(0.8).fit(x, ill, groups=hospital)
    crossed = eqrm.evaluate_model(model, x, ill, hospital, cv=5)
    quantile = float(eqrm.KDE(risks).quantile(0.8))
    numbers = f"{change:.2f} {bound:.2f} {quantile:.2f} {expected is not None}"
    return [numbers, sentence, crossed.sentence]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print("\n".join(answers(Path(place) / "trained")))
