"""Moments against exact rational arithmetic, in every way in which rows can arrive."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas
import pytest
import torch

from eqrm.errors import DomainDataError
from eqrm.linear import DomainMoments

Exact = tuple[list[Fraction], list[list[Fraction]]]


def exact_moments(rows: np.ndarray) -> Exact:
    """Mean and covariance of rows (n, k) in rational arithmetic."""
    columns = [[Fraction(float(value)) for value in column] for column in rows.T]
    n = len(rows)
    means = [sum(column) / n for column in columns]
    centred = [[value - m for value in column] for column, m in zip(columns, means, strict=True)]
    covariance = [
        [sum(a * b for a, b in zip(left, right, strict=True)) / n for right in centred]
        for left in centred
    ]
    return means, covariance


def relative_error(moments: DomainMoments, e: int, rows: np.ndarray) -> tuple[float, float]:
    """The worst error of the mean, relative to its size or spread, and of the covariance."""
    mean, covariance = exact_moments(rows)
    mean_error = max(
        float(abs(Fraction(float(moments.mean[e, j])) - mean[j]))
        / (float(abs(mean[j])) + float(covariance[j][j]) ** 0.5)
        for j in range(len(mean))
    )
    errors = [
        float(abs(Fraction(float(moments.covariance[e, i, j])) - covariance[i][j]))
        / float(covariance[i][i] * covariance[j][j]) ** 0.5
        for i in range(len(mean))
        for j in range(len(mean))
    ]
    return mean_error, max(errors)


def table(rows: int = 300, offset: float = 0.0, seed: int = 0) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3)) @ generator.normal(size=(3, 3)) + offset
    y = X @ [1.0, -2.0, 0.5] + generator.normal(size=rows)
    return X, y, generator.choice(["a", "b", "c"], size=rows)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("way", ["arrays", "batches"])
def test_moments_match_rational_arithmetic_also_far_from_zero(offset: float, way: str) -> None:
    X, y, domains = table(offset=offset)
    cuts = [slice(0, 1), slice(1, 120), slice(120, 300)]
    batches = [(X[cut], y[cut], domains[cut]) for cut in cuts]
    if way == "arrays":
        moments = DomainMoments.from_arrays(X, y, domains)
    else:
        moments = DomainMoments.from_batches(iter(batches))
    assert set(moments.names) == {"a", "b", "c"}
    for e, name in enumerate(moments.names):
        mine = domains == name
        assert moments.counts[e] == mine.sum()
        rows = np.column_stack([X, y])[mine]
        mean_error, covariance_error = relative_error(moments, e, rows)
        assert mean_error < 1e-14
        assert covariance_error < 1e-13


def test_a_million_rows_at_1e8_keep_the_digits_of_their_variance() -> None:
    # Rows on a grid, so that the sums are known in integers.
    steps = np.arange(1_000_000) % 1000
    moments = DomainMoments.from_arrays(1e8 + steps[:, None], 2.0 * steps, np.zeros(10**6, int))
    variance = (1000**2 - 1) / 12
    assert moments.covariance[0, 0, 0].item() == pytest.approx(variance, rel=1e-13)
    assert moments.covariance[0, 0, 1].item() == pytest.approx(2 * variance, rel=1e-13)
    assert moments.mean[0].tolist() == pytest.approx([1e8 + 499.5, 999.0], rel=1e-15)


def test_domains_are_in_order_integers_first() -> None:
    X, y = np.zeros((3, 1)), np.zeros(3)
    assert DomainMoments.from_arrays(X, y, [10, 9, 1]).names == ("1", "9", "10")
    assert DomainMoments.from_arrays(X, y, ["10", "b", "9"]).names == ("9", "10", "b")


def test_a_batch_may_name_its_domain_once() -> None:
    X, y, _ = table()
    once = DomainMoments.from_batches([(X, y, "a")])
    assert torch.equal(once.mean, DomainMoments.from_arrays(X, y, ["a"] * 300).mean)


def test_risks_are_mean_squared_errors() -> None:
    X, y, domains = table(offset=3.0)
    moments = DomainMoments.from_arrays(X, y, domains)
    beta, b = np.array([0.3, -1.0, 2.0]), 0.7
    risks = moments.risks(beta, b)
    for e, name in enumerate(moments.names):
        errors = (X @ beta + b - y)[domains == name]
        assert risks[e].item() == pytest.approx((errors**2).mean(), rel=1e-12)
    batch = moments.risks(torch.tensor(np.stack([beta, 2 * beta])), np.array([b, 0.0]))
    assert torch.allclose(batch[0], risks, rtol=1e-14)
    assert torch.allclose(batch[1], moments.risks(2 * beta), rtol=1e-14)


def test_risks_are_differentiable() -> None:
    X, y, domains = table()
    moments = DomainMoments.from_arrays(X, y, domains)
    beta = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(moments.risks, (beta, b))


def test_subset_takes_domains_by_name_in_the_order_asked_for() -> None:
    moments = DomainMoments.from_arrays(*table())
    some = moments.subset(["c", "a"])
    assert some.names == ("c", "a")
    assert torch.equal(some.covariance, moments.covariance[[2, 0]])
    with pytest.raises(DomainDataError, match="Unknown domain 'd'"):
        moments.subset(["d"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named_by_column_and_domain(value: float) -> None:
    X, y, domains = table()
    X[np.flatnonzero(domains == "b")[-1], 1] = value
    with pytest.raises(DomainDataError, match="Column 'x2' of domain 'b' contains"):
        DomainMoments.from_arrays(X, y, domains)
    y[0] = value
    with pytest.raises(DomainDataError, match="Column 'out' of domain"):
        DomainMoments.from_arrays(X[:, :1], y, domains, target="out")


def test_values_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(DomainDataError, match="squares overflow"):
        DomainMoments.from_arrays([[1e200], [-1e200]], [1.0, 2.0], ["a", "a"])


def test_shapes_that_do_not_fit_are_refused() -> None:
    X, y, domains = table()
    for wrong, message in (
        ((X[:, 0], y, domains), r"shape \(rows, features\)"),
        ((X, y[:, None], domains), "y must hold one number per row"),
        ((X, y[:-1], domains), "same number of rows, got 300 and 299"),
        ((X, y, domains[:-1]), "one domain per row"),
        ((X[:0], y[:0], domains[:0]), "At least one row is needed"),
        ((X.astype(str).astype(object) + "!", y, domains), "X must hold numbers"),
    ):
        with pytest.raises(DomainDataError, match=message):
            DomainMoments.from_arrays(*wrong)
    with pytest.raises(DomainDataError, match="must have 2 columns"):
        DomainMoments.from_arrays(X, y, domains, features=["a", "b"])
    with pytest.raises(DomainDataError, match="must be unique, got 'a' twice"):
        DomainMoments.from_arrays(X, y, domains, features=["a", "b", "a"])
    with pytest.raises(DomainDataError, match="coefficients must have 3 entries"):
        DomainMoments.from_arrays(X, y, domains).risks([1.0, 2.0])


def test_a_domain_without_rows_and_impossible_covariances_are_refused() -> None:
    mean = torch.zeros(1, 3, dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64)[None]
    with pytest.raises(DomainDataError, match="'a' has no rows"):
        DomainMoments(("a",), torch.zeros(1, dtype=torch.float64), ("x1", "x2"), mean, eye)
    for i, j, value in ((0, 1, 0.5), (1, 1, -1.0)):
        wrong = eye.clone()
        wrong[0, i, j] = value
        with pytest.raises(DomainDataError, match="symmetric and positive"):
            DomainMoments.population(mean, wrong)
    indefinite = torch.full((1, 3, 3), -0.9, dtype=torch.float64) + 1.9 * eye
    with pytest.raises(DomainDataError, match="not positive semidefinite"):
        DomainMoments.population(mean, indefinite)


def test_constant_and_collinear_columns_are_reported_in_sentences() -> None:
    X, y, domains = table()
    assert DomainMoments.from_arrays(X, y, domains).problems() == []
    wide = np.column_stack([X, np.full(300, 0.1), X[:, 0] - 3 * X[:, 2] + 1e3, X[:, 1] ** 2])
    problems = DomainMoments.from_arrays(wide, y, domains).problems()
    assert problems == [
        "Feature 'x4' is constant, like the intercept: leave it out.",
        "Features 'x1', 'x3' and 'x5' are linearly dependent: leave one of them out.",
    ]
    (constant,) = DomainMoments.from_arrays(X, 0 * y, domains).problems()
    assert "target 'y' is constant" in constant


def test_mistakes_with_frames_and_names_are_said_in_words() -> None:
    frame = pandas.DataFrame({"a": [1.0, 2.0, 4.0], "y": [0.0, 1.0, 3.0], "d": ["u", "u", "v"]})
    missing = frame.d.astype("string").where([False, True, True])
    dated = frame.assign(a=pandas.Timestamp("2020-01-01"))
    twice = pandas.concat([frame[["a"]], frame[["a"]]], axis=1)
    for table, domains, message in [
        (frame[["a"]], missing, "missing in 1 of 3 rows"),
        (dated[["a"]], frame.d, "'a' does not hold numbers only"),
        (twice, frame.d, "2 columns 'a'"),
    ]:
        with pytest.raises(DomainDataError, match=message):
            DomainMoments.from_arrays(table, frame.y, domains)
    moments = DomainMoments.from_arrays(frame[["a"]], frame.y, frame.d)
    for mistake, message in [
        (lambda: moments.risks(["a"]), "must hold numbers"),
        (lambda: DomainMoments.population("a", "b"), "mean must hold numbers"),
        (lambda: DomainMoments.from_batches([(1, 2)]), r"must be \(X, y, domains\)"),
    ]:
        with pytest.raises(DomainDataError, match=message):
            mistake()
    named = DomainMoments.population(
        np.zeros((2, 2)), np.stack([np.eye(2)] * 2), names=np.array(["p", "q"])
    )
    assert named.names == ("p", "q")
