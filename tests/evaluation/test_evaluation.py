"""What an evaluation says beyond its table: certificates, differences, noise, order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import eqrm
from eqrm.data.tables.files import opened
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.presenting.summary import summarised
from eqrm.risks import MeasuredRisks


def measured(risks: Any, counts: Any = 100, variances: Any = 0.01, names: Any = None) -> Any:
    size = len(risks)
    names = list(range(size)) if names is None else names
    full = [np.broadcast_to(np.asarray(a, dtype=float), size) for a in (counts, variances)]
    return MeasuredRisks.of(names, full[0], risks, full[1])


def evaluation(bounds: tuple[float, float] | None = None, **models: Any) -> eqrm.Evaluation:
    return eqrm.Evaluation(models, "loss", bounds)


RISKS = np.random.default_rng(0).beta(2, 5, 200)


def test_certificates_are_those_of_the_predictor_asked_for() -> None:
    found = evaluation(A=measured(RISKS), B=measured(RISKS / 2))
    rank = int(stats.binom.ppf(0.95, 200, 0.9)) + 1
    assert found.certificate().bound == np.sort(RISKS)[rank - 1]
    assert found.certificate(model="B").bound == np.sort(RISKS)[rank - 1] / 2
    share = found.certificate(threshold=0.5).bound
    below = int((RISKS <= 0.5).sum())
    assert share == pytest.approx(stats.beta.ppf(0.05, below, 201 - below))
    with pytest.raises(SettingError, match="Unknown model 'C'"):
        found.certificate(model="C")


def test_true_risks_need_bounds_and_lie_above_the_measured_ones() -> None:
    with pytest.raises(SettingError, match="bounds"):
        evaluation(A=measured(RISKS)).certificate(true_risk=True)
    found = evaluation((0.0, 1.0), A=measured(RISKS))
    bound = found.certificate(true_risk=True)
    assert bound.bound > found.certificate().bound
    assert "have a true risk of at most" in bound.sentence
    assert found.certificate(threshold=0.6, true_risk=True).bound < 1.0
    single = evaluation((0.0, 1.0), A=measured(RISKS, variances=np.r_[np.nan, [0.01] * 199]))
    assert 1.0 > single.certificate(true_risk=True).bound > found.certificate().bound


def test_a_drift_over_dates_is_noticed() -> None:
    days = pd.date_range("2024-01-01", periods=200).strftime("%Y-%m-%d").tolist()
    order = np.random.default_rng(2).permutation(200)
    drifting = np.sort(RISKS)[order]
    found = evaluation(A=measured(drifting, names=[days[i] for i in order]))
    tests = {test.what: test for test in found.exchangeability["A"]}
    assert tests["changes over time"].p_value < 0.01
    assert set(tests) == {"changes over time", "changes with domain size"}
    assert [t.what for t in evaluation(A=measured(RISKS)).exchangeability["A"]] == [
        "changes with domain size"
    ]
    assert evaluation(A=measured(RISKS[:3])).exchangeability == {"A": []}


def test_the_summary_says_it_all_in_words_and_in_json() -> None:
    found = evaluation(A=measured(RISKS), **{"B\n\x1b[31m": measured(RISKS / 2)})
    summary = summarised(found)
    text = summary.to_text()
    assert "With 95% confidence" in text
    assert "Risk minus that of A, paired by domain" in text
    assert "\x1b" not in text
    content = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert content["certificates"]["A"]["bound"] == found.certificate().bound
    assert content["baseline"] == "A"
    few = summarised(evaluation(A=measured(RISKS[:8])))
    assert "at least 29 are needed" in few.to_text()
    assert "at least 29" in few.to_dict()["certificates"]["A"]["refused"]


@pytest.mark.usefixtures("own_database")
def test_duckdb_draws_nothing_into_the_output(tmp_path: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text("d,loss\na,1\nb,2\n")
    for progress in (False, True):
        with opened(path, 1, "100MB", progress) as table:
            row = table.connection.execute(
                "SELECT current_setting('enable_progress_bar_print')"
            ).fetchone()
            assert row == (False,)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "something else"}, "not an evaluation"),
        ({"loss": ["x"]}, "some values are wrong"),
        ({"bounds": [0.0, 0.001]}, "losses are said to be between 0 and 0.001, and the risks of"),
        ({"bounds": 3}, "damaged"),
        ({"models": [1]}, "damaged"),
    ],
)
def test_forged_evaluations_are_refused(changes: dict[str, object], complaint: str) -> None:
    found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9]).to_dict()
    with pytest.raises(DomainDataError, match=complaint):
        eqrm.evaluation.Evaluation.from_dict({**found, **changes})


@pytest.mark.parametrize("count", [0, 20.5, True, 10**400])
def test_counts_that_are_none_are_refused(count: object) -> None:
    found = MeasuredRisks.of(["a", "b"], [1, 2], [0.5, 0.25], [float("nan"), 0.5]).to_dict()
    with pytest.raises(DomainDataError, match="must be an integer of at least 1, got"):
        MeasuredRisks.from_dict({**found, "counts": [count, 2]})


def test_risks_without_a_name_are_refused() -> None:
    with pytest.raises(DomainDataError, match="differ in number"):
        MeasuredRisks.of(["a", "b"], [1, 2, 3], [0.5, 0.25, 9.9], [float("nan"), 0.5, 0.5])
