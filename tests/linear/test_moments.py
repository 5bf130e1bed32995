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


def test_domains_are_in_order_integers_first() -> None:
    X, y = np.zeros((3, 1)), np.zeros(3)
    assert DomainMoments.from_arrays(X, y, [10, 9, 1]).names == ("1", "9", "10")
    assert DomainMoments.from_arrays(X, y, ["10", "b", "9"]).names == ("9", "10", "b")


def test_risks_are_mean_squared_errors() -> None:
    X, y, domains = table(offset=3.0)
    moments = DomainMoments.from_arrays(X, y, domains)
    beta, b = np.array([0.3, -1.0, 2.0]), 0.7
    risks = moments.risks(beta, b)
    for e, name in enumerate(moments.names):
        errors = (X @ beta + b - y)[domains == name]
        assert risks[e].item() == pytest.approx((errors**2).mean(), rel=1e-12)
    batch = moments.risks(torch.tensor(np.stack([beta, 2 * beta])), np.array([b, 0.0]))
    assert batch.dtype == torch.float64
    np.testing.assert_allclose(batch[0], risks, rtol=1e-14)
    np.testing.assert_allclose(batch[1], moments.risks(2 * beta), rtol=1e-14)
    np.testing.assert_allclose(batch, moments.risks([beta, 2 * beta], [b, 0.0]), rtol=1e-14)


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
    assert (some.covariance == moments.covariance[[2, 0]]).all()
    with pytest.raises(DomainDataError, match="Unknown domain 'd'"):
        moments.subset(["d"])


def test_values_that_are_not_finite_are_named_by_column_and_domain() -> None:
    X, y, domains = table()
    y[0] = np.inf
    with pytest.raises(DomainDataError, match="Column 'out' of domain"):
        DomainMoments.from_arrays(X, y, domains, target="out")
    for value in (np.nan, 1e200):
        X[np.flatnonzero(domains == "b")[-1], 1] = value
        with pytest.raises(DomainDataError, match="Column 'x2' of domain 'b' contains"):
            DomainMoments.from_arrays(X, table()[1], domains)


def test_shapes_that_do_not_fit_are_refused() -> None:
    X, y, domains = table()
    for wrong, message in (
        ((X[:, 0], y, domains), r"shape \(rows, features\)"),
        ((X, y[:-1], domains), "same number of rows, got 300 and 299"),
        ((X, y, domains[:-1]), "one domain per row"),
        ((X[:0], y[:0], domains[:0]), "At least one row is needed"),
        ((X.astype(str).astype(object) + "!", y, domains), "X must hold numbers"),
        ((X, y, domains, ["a", "b"]), "must have 2 columns"),
        ((X, y, pandas.Series(domains).where(domains != "b")), "missing in"),
    ):
        with pytest.raises(DomainDataError, match=message):
            DomainMoments.from_arrays(*wrong)
    with pytest.raises(DomainDataError, match="coefficients must have 3 entries"):
        DomainMoments.from_arrays(X, y, domains).risks([1.0, 2.0])


def test_moments_of_no_distribution_are_refused() -> None:
    eye = torch.eye(3, dtype=torch.float64)[None]
    for i, j, value in ((0, 1, 0.5), (1, 1, -1.0), (0, 0, np.nan)):
        wrong = eye.clone()
        wrong[0, i, j] = value
        with pytest.raises(DomainDataError, match="moments of domain '0' are impossible"):
            DomainMoments.population(torch.zeros(1, 3), wrong)
    with pytest.raises(DomainDataError, match="symmetric and positive semidefinite"):
        DomainMoments.population(torch.zeros(1, 3), 1.9 * eye - 0.9)
    with pytest.raises(DomainDataError, match="must have the shapes"):
        DomainMoments.population(torch.zeros(1, 2), eye)


def test_constant_and_collinear_columns_are_reported_in_sentences() -> None:
    X, y, domains = table()
    assert DomainMoments.from_arrays(X, y, domains).problems() == []
    wide = np.column_stack([X, np.full(300, 0.1), X[:, 0] - 3 * X[:, 2] + 1e3, X[:, 1] ** 2])
    assert DomainMoments.from_arrays(wide, y, domains).problems() == [
        "Feature 'x4' is constant, like the intercept: leave it out.",
        "Features 'x1', 'x3', 'x5' are linearly dependent: leave some out.",
    ]
    (constant,) = DomainMoments.from_arrays(X, 0 * y, domains).problems()
    assert "target 'y' is constant" in constant


def test_columns_of_frames_are_found_by_name() -> None:
    X, y, domains = table()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    batches = [(frame[:100], y[:100], domains[:100]), (frame[list("cba")][100:], y[100:], "a")]
    mixed = DomainMoments.from_batches(batches)
    plain = DomainMoments.from_batches([(X[:100], y[:100], domains[:100]), (X[100:], y[100:], "a")])
    assert mixed.features == ("a", "b", "c")
    assert (mixed.covariance == plain.covariance).all()
    some = DomainMoments.from_arrays(frame, y, domains, features=["c", "a"])
    assert (some.mean == DomainMoments.from_arrays(X[:, [2, 0]], y, domains).mean).all()
