"""The settings that domains need and what is kept there, against their definitions, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from eqrm.errors import SettingError
from eqrm.evaluation.measuring.requirement import KINDS, LEAST_ANSWERED, Requirement
from eqrm.evaluation.measuring.rows import RowsOfPredictions

Array = NDArray[np.float64]
LIMITS = (0.03, 0.1, 0.3, 0.5)
KINDS_OF_CLASSES = ("wrong", "missed", "false alarms", "lac", "aps", "wrong among answered")


def requirement(kind: str, allowed: float = 0.1) -> Requirement:
    if kind in ("lac", "aps", "intervals"):
        return Requirement("coverage", 1.0 - allowed, kind)
    return Requirement(kind, allowed)


def drawn(seed: int, classes: int = 2, domains: int = 8) -> RowsOfPredictions:
    """Rows with many ties, of domains of 1 to 40 rows, one of them without a positive."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 41, domains)
    ids = rng.permutation(np.repeat(np.arange(domains), sizes)).astype(np.int32)
    scores = np.round(rng.dirichlet(np.ones(classes), len(ids)), 1)
    scores[:, -1] = 1.0 - scores[:, :-1].sum(axis=1)
    labels = rng.integers(0, classes, len(ids)).astype(np.float64)
    labels[ids == 3] = 0.0
    return RowsOfPredictions(ids, labels, scores[:, 1] if classes == 2 else scores)


def is_met(how: Requirement, labels: Array, predictions: Array, setting: float) -> bool:
    """By the words of the requirement."""
    p = predictions if predictions.ndim == 2 else np.column_stack([1.0 - predictions, predictions])
    allowed = how.allowed + 1e-9
    guess = predictions >= 0.5 if predictions.ndim == 1 else p.argmax(axis=1)
    wrong, answered = guess != labels, p.max(axis=1) > setting
    if how.kind == "wrong":
        return bool((wrong & answered).sum() <= allowed * len(labels))
    if how.kind == "wrong among answered":
        few = answered.sum() < LEAST_ANSWERED
        return bool(few or (wrong & answered).sum() <= allowed * answered.sum())
    if how.score:
        inside = _sets(p, how.score, setting)[np.arange(len(labels)), labels.astype(int)]
        return bool((~inside).sum() <= allowed * len(labels))
    if how.kind == "missed":
        positives = predictions[labels == 1.0]
        return bool((positives < -setting).sum() <= allowed * len(positives))
    negatives = predictions[labels == 0.0]
    return bool((negatives > setting).sum() <= allowed * len(negatives))


def _sets(p: Array, score: str, setting: float) -> NDArray[np.bool_]:
    if score == "lac":
        return p >= -setting
    found = np.zeros(p.shape, dtype=bool)
    for row, probabilities in zip(found, p, strict=True):
        total = 0.0
        for place in np.argsort(-probabilities, kind="stable"):
            total += probabilities[place]
            row[place] = total <= setting
    return found


@pytest.mark.parametrize("kind", KINDS_OF_CLASSES)
@pytest.mark.parametrize("classes", [2, 3])
def test_from_the_needed_setting_on_and_not_before_the_requirement_is_met(
    kind: str, classes: int
) -> None:
    if classes == 3 and kind in ("missed", "false alarms"):
        pytest.skip("for two classes")
    for seed in range(12):
        rows = drawn(seed, classes)
        for limit in LIMITS:
            how = requirement(kind, limit)
            (needed,) = how.needed(rows, 8, [how.allowed])
            for domain, setting in enumerate(needed):
                inside = rows.domain == domain
                given = rows.label[inside], rows.prediction[inside]
                steps = np.linspace(-1.0, 1.0, 41)
                later = [setting, *steps[steps > setting]]
                assert all(is_met(how, *given, each) for each in later), (seed, domain, limit)
                if setting > how.how.lowest:
                    assert not is_met(how, *given, np.nextafter(setting, -2.0))


def test_intervals_need_the_order_statistic_of_what_is_outside() -> None:
    rng = np.random.default_rng(0)
    away, ids = rng.normal(size=300), np.repeat(np.arange(3), 100).astype(np.int32)
    rows = RowsOfPredictions(ids, away, np.column_stack([np.full(300, 2.0), np.full(300, 0.5)]))
    how = requirement("intervals", 0.1)
    (needed,) = how.needed(rows, 3, [how.allowed])
    np.testing.assert_array_equal(needed, np.sort(away.reshape(3, 100), axis=1)[:, 89])
    np.testing.assert_allclose(how.kept(rows, 3, 1.5), 2.0 + 2.0 * 1.5 * 0.5)
    assert (how.kept(rows, 3, -5.0) == 0.0).all()  # no interval is narrower than nothing
    wide = RowsOfPredictions(ids[:250], away[:250], np.column_stack([away**2, away * 0])[:250])
    medians = [
        np.median((away**2)[ids[:250].searchsorted(d) : 250][: [100, 100, 50][d]]) for d in range(3)
    ]
    np.testing.assert_allclose(how.kept(wide, 4, 9.0), [*medians, np.nan])


@pytest.mark.parametrize("kind", ["wrong", "missed", "lac"])
def test_a_true_share_is_missed_as_rarely_as_asked(kind: str) -> None:
    """As many rows may be lost as a binomial with the limit rarely reaches."""
    for seed in range(6):
        rows = drawn(seed, domains=6)
        how = requirement(kind, 0.3)
        (needed,) = how.needed(rows, 6, [how.allowed], miss=0.05)
        for domain, setting in enumerate(needed):
            inside = rows.domain == domain
            labels, p = rows.label[inside], rows.prediction[inside]
            n = int((labels == 1.0).sum()) if kind == "missed" else len(labels)
            most = max(
                (k for k in range(n + 1) if binom.cdf(k, n, how.allowed) <= 0.05), default=-1
            )
            scores, _ = how.how.scores(labels, p)
            lost = int((scores > setting).sum())
            assert lost <= max(most, 0)
            if n and most < 0:  # nothing may be lost, and even that is too often chance
                assert setting == how.how.highest


def test_what_is_kept_is_a_mean_over_rows_of_each_domain() -> None:
    rows = drawn(1)
    for domain in range(8):
        inside = rows.domain == domain
        labels, p = rows.label[inside], rows.prediction[inside]
        kept = {kind: requirement(kind).kept(rows, 8, 0.7)[domain] for kind in ("wrong", "aps")}
        assert kept["wrong"] == pytest.approx((np.maximum(p, 1.0 - p) > 0.7).mean())
        both = np.column_stack([1.0 - p, p])
        assert kept["aps"] == pytest.approx(_sets(both, "aps", 0.7).sum(axis=1).mean())
        flagged = requirement("missed").kept(rows, 8, -0.4)[domain]
        assert flagged == pytest.approx((p >= 0.4).mean())
        found = requirement("false alarms").kept(rows, 8, 0.4)[domain]
        assert (
            np.isnan(found)
            if domain == 3
            else found == pytest.approx((p[labels == 1] > 0.4).mean())
        )


def test_parts_of_whole_domains_give_the_same() -> None:
    rows = drawn(2)
    for kind in (*KINDS_OF_CLASSES, "lac"):
        how = requirement(kind)
        whole = how.needed(rows, 8, LIMITS)
        parts = []
        for some in (rows.domain < 4, rows.domain >= 4):
            part = RowsOfPredictions(rows.domain[some], rows.label[some], rows.prediction[some])
            parts.append(how.needed(part, 8, LIMITS))
        np.testing.assert_array_equal(np.maximum(*parts), whole)


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("wrong <= 5%", "wrong <= 5%"),
        (" Wrong<=0.05 ", "wrong <= 5%"),
        ("missed ≤ 10%", "missed <= 10%"),
        ("wrong among answered <= 5%", "wrong among answered <= 5%"),
        ("coverage >= 90%", "coverage >= 90% (lac)"),
        ("coverage >= 0.9 (aps)", "coverage >= 90% (aps)"),
        ("loss <= 0.4", "loss <= 0.4"),
    ],
)
def test_a_requirement_is_read_from_words_and_written_so_that_it_is_read_again(
    text: str, again: str
) -> None:
    found = Requirement.of(text, "lac")
    assert found.text == again
    assert Requirement.of(found.text) == found
    assert found.how in KINDS.values()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("wrong >= 5%", r"Write 'wrong' with <=: 'wrong <= 5%'\."),
        ("coverage <= 90%", r"Write 'coverage' with >=: 'coverage >= 90%'\."),
        ("wrong <= 10", r"strictly between 0% and 100%, got 10\.0\. Did you mean 10%\?"),
        ("wrong <= 0%", r"strictly between 0% and 100%, got 0\.0\.$"),
        ("missing <= 5%", r"Unknown requirement 'missing'\. Did you mean 'missed'\?"),
        *((text, r"must be of the form 'wrong <= 5%'") for text in ("5%", 7, "", "wrong = 5%")),
    ],
)
def test_what_is_no_requirement_is_refused_with_advice(text: Any, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        Requirement.of(text, "lac")
