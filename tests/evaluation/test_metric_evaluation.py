"""Metrics per domain and pooled, with intervals over domains."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import eqrm
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation import Evaluation, quantile_bound, risk_intervals

DOMAINS = 40


@pytest.fixture(scope="module")
def world():
    """Domains 0 … 39 of 25 examples, of which the last has one class."""
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(DOMAINS), 25)
    labels = rng.integers(0, 2, domains.size)
    labels[domains == DOMAINS - 1] = 1
    scores = {"ERM": labels + rng.normal(size=labels.size)}
    scores["EQRM"] = scores["ERM"] + rng.normal(size=labels.size)
    return domains, labels, scores


@pytest.fixture(scope="module")
def found(world):
    domains, labels, scores = world
    return eqrm.evaluate(metric="roc-auc", domains=domains, target=labels, predictions=scores)


def test_every_domain_and_all_examples_are_measured(world, found):
    domains, labels, scores = world
    for name, each in scores.items():
        one = found.metrics[name]
        assert one.pooled.value == pytest.approx(roc_auc_score(labels, each), abs=1e-13)
        expected = [
            roc_auc_score(labels[domains == d], each[domains == d]) for d in range(DOMAINS - 1)
        ]
        assert [v.value for v in one.values[:-1]] == pytest.approx(expected, abs=1e-13)
        assert one.values[-1].value is None
        assert one.undefined == {DOMAINS - 1: "one class"}
        assert one.risks.domains == tuple(range(DOMAINS - 1))
        assert found.means()[name].value == pytest.approx(np.mean(expected), abs=1e-13)


def test_intervals_over_domains_are_those_of_risks(found):
    risks = found["ERM"].risks
    mean, quantile, _ = risk_intervals(risks, [0.5], 0.9)
    cell = found.means(0.9)["ERM"]
    assert (cell.low, cell.high) == pytest.approx((1 - mean.high, 1 - mean.low))
    assert cell.low < cell.value < cell.high
    (_, middle) = found.risk_table([0.5], [], confidence=0.9).cells["ERM"]
    assert (middle.low, middle.high) == (quantile.low, quantile.high)
    (change, *_) = found.compare()["EQRM"]
    assert change.value == pytest.approx(found["EQRM"].risks.mean() - risks.mean())
    assert list(found.compare("EQRM")) == ["ERM"]


def test_certificates_are_about_the_measured_metric_alone(found):
    assert found.loss == "1 − roc-auc"
    assert found.certificate(0.9).bound == quantile_bound(found["ERM"].risks, 0.9).bound
    assert found.noise == {"ERM": None, "EQRM": None}
    assert Evaluation.from_dict(found.to_dict()).to_dict() == found.to_dict()
    with pytest.raises(SettingError, match="bounds"):
        found.certificate(0.9, true_risk=True)


def test_a_mean_is_not_bounded_beyond_the_range_of_the_metric():
    # 40 domains of two examples: accuracy 1, and ½ in three of them.
    labels = np.zeros(80, dtype=int)
    predicted = labels.copy()
    predicted[[0, 20, 40]] = 1
    found = eqrm.evaluate(
        metric="accuracy", domains=np.arange(80) // 2, target=labels, predictions=predicted
    )
    cell = found.means(0.999)["model"]
    assert cell.value == pytest.approx(1 - 1.5 / 40)
    assert cell.high is None or cell.high <= 1.0
    assert found.means()["model"].high == 1.0


def test_with_one_domain_the_refusal_has_the_pooled_value():
    with pytest.raises(
        DomainDataError, match=r"roc-auc of all examples is 1\.0000, but .* in 1 domain of 2"
    ):
        eqrm.evaluate(
            metric="roc-auc", domains=list("aab"), target=[0, 1, 1], predictions=[0.1, 0.2, 0.3]
        )
