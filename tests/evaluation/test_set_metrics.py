"""Metrics that are not means of losses: against scikit-learn, and WILDS's and OGB's definitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score

from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.measured import skill_of_classes
from eqrm.evaluation.measuring.set_metrics import DomainMetric, set_metric

ACCURACY, F1, PRECISION, AREA = "accuracy", "macro-f1", "average-precision", "roc-auc"
OF_TASK = {"average-precision": average_precision_score, "roc-auc": roc_auc_score}
CASES = range(80)


def pooled(name, labels, predictions):
    """The metric of all examples together."""
    metric = set_metric(name)
    return metric.of_read(*metric.read(labels, predictions))


def sizes(rng):
    """Of a domain: one example often."""
    return int(rng.choice([1, 2, 3, 10, 60]))


def test_classes_agree_with_scikit_learn():
    alone = single = 0
    for case in CASES:
        rng = np.random.default_rng(case)
        n, classes = sizes(rng), int(rng.choice([1, 2, 3, 8]))
        labels, predicted = rng.integers(0, classes, n), rng.integers(0, 8, n)
        alone, single = alone + (n == 1), single + (len(set(labels)) == 1)
        expected = f1_score(labels, predicted, average="macro", labels=np.unique(labels))
        share = accuracy_score(labels, predicted)
        for y, p in ((labels, predicted), (labels.astype(str), predicted.astype(str))):
            assert pooled(F1, y, p).value == pytest.approx(expected, abs=1e-14)
            assert pooled(ACCURACY, y, p).value == pytest.approx(share, abs=1e-14)
        scores = np.eye(8)[predicted] + rng.uniform(0, 0.5, (n, 8))
        assert pooled(F1, labels, scores) == pooled(F1, labels, predicted)
    assert min(alone, single) > 3  # the cases are what the test is for


@pytest.mark.parametrize("metric", [PRECISION, AREA])
def test_tasks_with_ties_and_missing_labels_agree_with_scikit_learn(metric):
    undefined = ties = 0
    for case in CASES:
        rng = np.random.default_rng(case)
        n, tasks = sizes(rng), int(rng.choice([1, 2, 5]))
        labels = (rng.random((n, tasks)) < rng.choice([0.0, 0.1, 0.5])).astype(float)
        labels[rng.random((n, tasks)) < rng.choice([0.0, 0.4, 0.9])] = np.nan
        scores = np.round(rng.normal(size=(n, tasks)), int(rng.choice([0, 1, 12])))
        ties += len(np.unique(scores)) < scores.size
        expected = []
        for y, s in zip(labels.T, scores.T, strict=True):
            known = ~np.isnan(y)
            if len(set(y[known])) == 2:
                expected.append(OF_TASK[metric](y[known], s[known]))
        found = pooled(metric, labels, scores)
        if expected:
            assert found.value == pytest.approx(np.mean(expected), abs=1e-13)
        else:
            undefined += 1
            assert found.value is None
            assert found.reason
        if tasks == 1 and not np.isnan(labels).any():
            assert pooled(metric, labels[:, 0], scores[:, 0]) == found
    assert min(undefined, ties) > 10


def test_classes_against_the_rest_agree_with_scikit_learn():
    for case in range(20):
        rng = np.random.default_rng(case)
        classes = 2 if case % 4 == 0 else 4
        labels = np.concatenate([np.arange(classes), rng.integers(0, classes, 30)])
        p = rng.dirichlet(np.ones(classes), labels.size).round(1) + 0.01
        p /= p.sum(axis=1, keepdims=True)
        if classes == 2:
            area = roc_auc_score(labels, p[:, 1])
            precision = average_precision_score(labels, p[:, 1])
        else:
            area = roc_auc_score(labels, p, multi_class="ovr", average="macro")
            precision = average_precision_score(np.eye(classes)[labels], p, average="macro")
        assert pooled(AREA, labels, p).value == pytest.approx(area, abs=1e-13)
        assert pooled(PRECISION, labels, p).value == pytest.approx(precision, abs=1e-13)
        assert skill_of_classes(labels, p).ranking == pytest.approx(area, abs=1e-13)


@pytest.mark.parametrize(
    ("metric", "labels", "predictions", "words"),
    [
        (F1, [0, 1], [0, 1, 1], r"shape \(n,\).*got \(2,\) and \(3,\)"),
        (AREA, [0, 1], [0.1, 0.2, 0.3], r"got \(2,\) and \(3,\)"),
        (ACCURACY, ["a", None], ["a", "b"], "A label is missing, got None at index 1"),
        (ACCURACY, ["a", "b"], ["a", " "], "A prediction is missing, got ' ' at index 1"),
        (ACCURACY, [0, 1, 1], [0.2, 1.5, 7.0], r"got 1.5 at index 1 \(in 2 of 3 rows\)"),
        (ACCURACY, [0, 2], [[0.5, 0.5], [0.4, 0.6]], "Labels must be 0 to 1, got 2 at index 1"),
        (AREA, [0, 2], [0.5, 0.5], "Labels must be 0, 1 or missing, got 2 at index 1"),
        (AREA, [0.0, np.nan], [0.5, 0.5], "A label is missing"),
        (PRECISION, [0, 1], [0.5, np.inf], "Scores must be finite numbers, got inf at index 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(metric, labels, predictions, words):
    with pytest.raises(DomainDataError, match=words):
        pooled(metric, labels, predictions)


def test_whole_numbers_are_the_same_class_however_they_are_written() -> None:
    """Labels 2.0 and 0.0 of a CSV file once agreed with no prediction 2 or 0."""
    for labels, classes in (
        (["2.0", "0.0", "1.0"], ["2", "0", "1"]),
        (np.array([2.0, 0.0, 1.0]), ["2", "0", "1"]),
        (np.array([2.0, 0.0, 1.0], dtype=object), np.array([2, 0, 1])),
    ):
        assert pooled(ACCURACY, labels, classes).value == 1.0
    assert pooled(ACCURACY, ["007", "7"], ["7", "7"]).value == 0.5
    with pytest.raises(DomainDataError, match="'True' is not 1"):
        DomainMetric.of(set_metric(ACCURACY), ["True", "False"], ["1", "0"], ["a", "b"])
