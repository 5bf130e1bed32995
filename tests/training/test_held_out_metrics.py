"""Metrics of held-out data in ``metrics.jsonl``, against scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from eqrm.data import DomainData
from eqrm.errors import SettingError
from eqrm.predictors import MLP
from eqrm.training import Phase, Trainer
from eqrm.training.held_out_risks import LABELS
from eqrm.training.runs.run_folder import RunFolder
from training.small_worlds import classification, regression, settings

TASKS = 3


def several_labels() -> DomainData:
    """Three labels per example, a quarter of them missing; the domain d5 has one class only."""
    data = regression(6, examples=20)
    generator = torch.Generator().manual_seed(3)
    y = (data.x + 0.7 * torch.randn(len(data), TASKS, generator=generator) > 0).float()
    y[data.domains == 5] = 1.0
    y[torch.rand(len(data), TASKS, generator=generator) < 0.25] = torch.nan
    y[y.isnan().all(dim=1)] = 1.0
    return replace(data, y=y)


def trained(
    data: DomainData, outputs: int, loss: Any, metrics: list[str] | None, folder: Path, **own: Any
) -> tuple[list[dict[str, Any]], torch.Tensor, DomainData]:
    """The lines of all evaluations, the logits at the end, and the test data."""
    parts = data.splits(test=data.names[-3:])
    assert parts.test is not None
    torch.manual_seed(0)
    chosen = settings(metrics=metrics, evaluate_every=4, evaluation_batch=7, **own)
    network = MLP(data.x.shape[1], outputs, width=8, loss=loss)
    phases = [Phase("erm", 8, 0.02)]
    held_out = {"test": parts.test}
    found = Trainer(
        network, parts.train, phases, held_out=held_out, settings=chosen, folder=folder
    ).fit()
    lines = [line for line in RunFolder(folder).metrics() if "split" in line]
    with torch.no_grad():
        return lines, found.predictor(parts.test.x).double(), parts.test


def rows_of(data: DomainData) -> dict[str, np.ndarray]:
    return {name: (data.domains == i).numpy() for i, name in enumerate(data.names)}


def over_tasks(score: Any, y: np.ndarray, scores: np.ndarray) -> float | None:
    """As OGB's evaluator: the mean over tasks with both labels, of the labels that are there."""
    found = []
    for task in range(y.shape[1]):
        known = ~np.isnan(y[:, task])
        if set(y[known, task]) == {0.0, 1.0}:
            found.append(score(y[known, task], scores[known, task]))
    return float(np.mean(found)) if found else None


def macro_f1(y: np.ndarray, classes: np.ndarray) -> float:
    """As WILDS has it for iWildCam: over the classes among the labels."""
    return float(f1_score(y, classes, average="macro", labels=np.unique(y), zero_division=0))


def test_macro_f1_and_accuracy_are_those_of_wilds(tmp_path: Path) -> None:
    names = ["macro-f1", "accuracy"]
    lines, logits, test = trained(classification(6), 3, "cross-entropy", names, tmp_path)
    assert [(line["step"], line.get("final", False)) for line in lines] == [
        (4, False),
        (8, False),
        (8, True),
    ]
    y, classes = test.y.numpy(), logits.argmax(dim=1).numpy()
    found = lines[-1]["metrics"]
    assert list(found) == names
    assert found["macro-f1"]["pooled"] == pytest.approx(macro_f1(y, classes), rel=1e-12)
    wanted = {name: macro_f1(y[rows], classes[rows]) for name, rows in rows_of(test).items()}
    assert found["macro-f1"]["domains"] == pytest.approx(wanted, rel=1e-12)
    assert found["macro-f1"]["mean"] == pytest.approx(np.mean(list(wanted.values())), rel=1e-12)
    assert found["macro-f1"]["defined"] == 3
    assert found["accuracy"]["pooled"] == pytest.approx(np.mean(y == classes), rel=1e-12)
    assert found["accuracy"]["domains"] == pytest.approx(lines[-1]["accuracies"], rel=1e-12)


def test_ranking_metrics_of_classes_are_one_task_per_class(tmp_path: Path) -> None:
    lines, logits, test = trained(classification(6), 3, "cross-entropy", ["roc-auc"], tmp_path)
    expected = roc_auc_score(test.y.numpy(), logits.softmax(dim=1).numpy(), multi_class="ovr")
    assert lines[-1]["metrics"]["roc-auc"]["pooled"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "score"),
    [("average-precision", average_precision_score), ("roc-auc", roc_auc_score)],
)
def test_metrics_over_tasks_are_those_of_ogb_and_undefined_is_null(
    name: str, score: Any, tmp_path: Path
) -> None:
    data = several_labels()
    lines, logits, test = trained(data, TASKS, "binary-cross-entropy", [name], tmp_path)
    y, scores = test.y.double().numpy(), logits.numpy()
    found = lines[-1]["metrics"][name]
    assert found["pooled"] == pytest.approx(over_tasks(score, y, scores), rel=1e-12)
    wanted = {
        each: over_tasks(score, y[rows], scores[rows]) for each, rows in rows_of(test).items()
    }
    assert found["domains"] == pytest.approx(wanted, rel=1e-12)
    assert found["domains"]["d5"] is None
    assert found["defined"] == 2
    has = [value for value in wanted.values() if value is not None]
    assert found["mean"] == pytest.approx(np.mean(has), rel=1e-12)


def test_without_metrics_nothing_is_written(tmp_path: Path) -> None:
    lines, _, _ = trained(classification(6), 3, "cross-entropy", None, tmp_path)
    assert not any("metrics" in line for line in lines)


@pytest.mark.parametrize("given", [["macro_f1"], ["accuracy", "accuracy"]])
def test_metrics_that_do_not_exist_are_refused(given: Any) -> None:
    with pytest.raises(SettingError, match=r"Unknown metric|a list of different metrics"):
        settings(metrics=given)


@pytest.mark.parametrize(
    ("data", "outputs", "loss", "metric"),
    [
        (regression(6), 1, "squared", "macro-f1"),
        (several_labels(), TASKS, "binary-cross-entropy", "macro-f1"),
        (replace(classification(6), y=classification(6).y / 4.0), 1, LABELS, "roc-auc"),
    ],
)
def test_unsuited_metrics_are_refused_before_training(
    data: DomainData, outputs: int, loss: Any, metric: str, tmp_path: Path
) -> None:
    refused = f"The test data: The metric '{metric}' needs one class .* but the loss is '{loss}'"
    with pytest.raises(SettingError, match=refused):
        trained(data, outputs, loss, [metric], tmp_path / "run")
    assert not (tmp_path / "run").exists()
