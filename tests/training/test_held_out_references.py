"""References of a trained network: those that ``eqrm.evaluate`` computes from its predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import eqrm
from eqrm.data import DomainData
from eqrm.predictors import MLP
from eqrm.training import Phase, Trained, Trainer
from eqrm.training.held_out_risks import NO_ROWS
from training.small_worlds import classification, regression, settings

NAMES = tuple(f"d{i:02d}" for i in range(16))  # in the order that evaluate sorts them


def fitted(data: DomainData, outputs: int, loss: object) -> tuple[Trained, DomainData]:
    parts = replace(data, names=NAMES).splits(test=NAMES[:12])
    assert parts.test is not None
    torch.manual_seed(0)
    trained = Trainer(
        MLP(data.x.shape[1], outputs, width=8, loss=loss),  # type: ignore[arg-type]
        parts.train,
        [Phase("erm", 20, 0.02)],
        held_out={"test": parts.test},
        settings=settings(evaluation_batch=50),
    ).fit()
    return trained, parts.test


def worlds(kind: str) -> tuple[DomainData, int, str]:
    if kind == "squared":
        return regression(16), 1, kind
    data = classification(16)
    if kind == "cross-entropy":
        return data, 3, kind
    return replace(data, y=(data.y > 0).float()), 1, kind


@pytest.mark.parametrize("kind", ["cross-entropy", "binary-cross-entropy", "squared"])
def test_references_are_those_of_evaluate(kind: str) -> None:
    trained, test = fitted(*worlds(kind))
    with torch.no_grad():
        outputs = trained.predictor(test.x).double()
    predictions = outputs.reshape(-1)
    if kind == "binary-cross-entropy":
        predictions = predictions.sigmoid()
    elif kind == "cross-entropy":
        predictions = outputs.softmax(dim=1)
    domains = [test.names[i] for i in test.domains]
    expected = eqrm.evaluate(
        domains=domains,
        target=test.y.numpy(),
        predictions={"net": predictions.numpy()},
        metric="squared" if kind == "squared" else "log-loss",
        references=True,
        alpha=0.8,
    )
    found = trained.risks["test"].evaluation("net", 0.8)
    assert found.references is not None
    assert expected.references is not None
    assert list(found.references.risks) == list(expected.references.risks)
    assert "net recalibrated" in found.references.risks
    for name, wanted in expected.references.risks.items():
        assert found.references.risks[name].domains == wanted.domains
        np.testing.assert_allclose(found.references.risks[name].risks, wanted.risks, rtol=1e-3)
    auc = found.references.skills["net"].ranking
    assert auc == pytest.approx(expected.references.skills["net"].ranking, abs=1e-4)


def test_a_loss_of_ones_own_has_no_references_and_says_so() -> None:
    def absolute(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (outputs.reshape(-1) - y).abs()

    trained, _ = fitted(regression(16), 1, absolute)
    found = trained.risks["test"].evaluation("net", 0.9).references
    assert found is not None
    assert (dict(found.risks), found.notes) == ({}, (NO_ROWS,))
    assert trained.risks["test"].evaluation("net").references is None
