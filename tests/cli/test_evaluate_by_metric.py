"""``eqrm evaluate --metric`` with metrics that are not means of losses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

import eqrm
from cli.commands import called, refused

CAMERAS = 36
NAMES = np.array(["cat", "dog", "owl"])
CLASSES = ["--target", "species", "--prediction", "ERM=erm", "--prediction", "eqrm"]


def frame() -> pd.DataFrame:
    """Cameras with 12 pictures, of which the first camera has one class only."""
    rng = np.random.default_rng(0)
    camera = np.repeat(np.arange(CAMERAS), 12)
    species = rng.integers(0, 3, camera.size)
    species[camera == 0] = 0
    scores = rng.dirichlet(np.ones(3), camera.size).round(3) + 0.3 * np.eye(3)[species]
    table = {
        "camera": [f"c{c:02d}" for c in camera],
        "species": NAMES[species],
        "erm": NAMES[scores.argmax(axis=1)],
        "eqrm": NAMES[rng.integers(0, 3, camera.size)],
        "is_cat": (species == 0).astype(int),
        "score": scores[:, 0],
        "probability": rng.random(camera.size).round(3),
    }
    table |= {f"p_{name}": scores[:, k] for k, name in enumerate(NAMES)}
    for task in ("a", "b"):
        labels = rng.integers(0, 2, camera.size).astype(float)
        labels[rng.random(camera.size) < 0.5] = np.nan
        table |= {f"y_{task}": labels, f"s_{task}": rng.random(camera.size)}
    return pd.DataFrame(table)


@pytest.fixture(scope="module", params=["csv", "parquet"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("metric") / f"pictures.{request.param}"
    if request.param == "csv":
        frame().to_csv(path, index=False)
    else:
        frame().to_parquet(path)
    return str(path)


def content(file: str, *options: str) -> dict:
    code, out, _ = called("evaluate", file, "--domain", "camera", *options, "--format", "json")
    assert code == 0
    return json.loads(out)


def pooled(found: dict, model: str) -> float:
    return found["metrics"][model]["pooled"]


def test_the_command_gives_what_python_gives(file: str) -> None:
    found = content(file, *CLASSES, "--metric", "accuracy", "--confidence", "0.9")
    wanted = eqrm.evaluate(
        frame(),
        metric="accuracy",
        domains="camera",
        target="species",
        predictions={"ERM": "erm", "eqrm": "eqrm"},
    )
    wanted_content = wanted.to_dict()
    assert {key: found[key] for key in ("loss", "models", "seen", "metrics")} == {
        key: wanted_content[key] for key in ("loss", "models", "seen", "metrics")
    }
    assert found["risk_table"] == wanted.risk_table(confidence=0.9).to_dict()


def test_scores_probabilities_and_tasks_in_columns(file: str) -> None:
    data = frame()
    found = content(file, "--target", "is_cat", "--prediction", "score", "--metric", "roc-auc")
    assert pooled(found, "score") == pytest.approx(roc_auc_score(data.is_cat, data.score))
    first = found["metrics"]["score"]["domains"][0]
    assert first == {"domain": "c00", "n": 12, "value": None, "reason": "one class"}
    assert found["risk_table"]["domains"] == CAMERAS - 1
    given = ("--target", "is_cat", "--prediction", "probability", "--metric", "accuracy")
    right = ((data.probability >= 0.5) == (data.is_cat == 1)).mean()
    assert pooled(content(file, *given), "probability") == pytest.approx(right)
    given = ("--target", "species", "--prediction", "ERM=p_{class}", "--metric", "macro-f1")
    expected = f1_score(data.species, data.erm, average="macro")
    assert pooled(content(file, *given), "ERM") == pytest.approx(expected)
    given = ("--target", "y_{task}", "--prediction", "s_{task}", "--metric", "average-precision")
    tasks = [data[[f"y_{task}", f"s_{task}"]].dropna().to_numpy() for task in "ab"]
    expected = np.mean([average_precision_score(*each.T) for each in tasks])
    assert pooled(content(file, *given), "s_{task}") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*CLASSES, "--metric", "macrof1"], "Did you mean 'macro-f1'?"),
        (
            [*CLASSES, "--metric", "macro-f1", "--partial", "part.json"],
            "The metric of a part must be the name of a loss",
        ),
        (
            ["--target", "y_{task}", "--prediction", "p_{task}", "--metric", "roc-auc"],
            "do not match the same tasks",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    file: str, options: list[str], words: str
) -> None:
    assert words in refused("evaluate", file, "--domain", "camera", *options)
