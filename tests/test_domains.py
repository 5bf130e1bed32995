"""A domain has one name, whatever it is given as and wherever it is given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import eqrm
from eqrm.data import DomainData, Table
from eqrm.data.tables.reading import read_table
from eqrm.domains import name_order, number_domains
from eqrm.errors import DomainDataError
from eqrm.evaluation import RiskAccumulator
from eqrm.linear import DomainMoments

DAYS = [dt.date(2013, 2, 1), dt.date(2013, 1, 31), dt.date(2013, 2, 1), dt.date(2013, 1, 31)]
HOURS = [dt.datetime(2013, 1, 31, 17, 45), dt.datetime(2013, 1, 31)] * 2
ZONED = [dt.datetime(2013, 1, 31, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))] * 2
ZONED += [dt.datetime(2013, 1, 31, 12, tzinfo=dt.timezone.utc)] * 2
KINDS: dict[str, tuple[list[Any], list[str]]] = {
    "texts": (["Rome", "Oslo", "Rome", "Oslo"], ["Oslo", "Rome"]),
    "padded numbers": (["007", "7", "007", "7"], ["7", "007"]),
    "integers": ([10, 2, 10, 2], ["2", "10"]),
    "integers as texts": (["10", "2", "10", "2"], ["2", "10"]),
    "whole floats": ([10.0, 2.0, 10.0, 2.0], ["2", "10"]),
    "booleans": ([True, False, True, False], ["False", "True"]),
    "dates": (DAYS, ["2013-01-31", "2013-02-01"]),
    "moments": (HOURS, ["2013-01-31", "2013-01-31 17:45:00"]),
    "moments with a zone": (ZONED, ["2013-01-30 23:00:00+00:00", "2013-01-31 12:00:00+00:00"]),
}
LOSSES = [0.5, 0.25, 1.0, 0.75]
X = np.arange(8.0).reshape(4, 2)


def moments_series(values: list[Any]) -> pd.Series[Any]:
    made = pd.Series(values)
    is_day = isinstance(values[0], dt.date) and not isinstance(values[0], dt.datetime)
    return pd.to_datetime(made) if is_day else made


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda values: values,
    "object array": lambda values: np.array(values, dtype=object),
    "numpy": lambda values: np.array(values),
    "pandas": moments_series,
    "categorical": lambda values: pd.Series(moments_series(values).astype("category")),
    "polars": pl.Series,
    "Arrow": pa.array,
}


def from_file(values: list[Any], path: Path, ending: str) -> pd.DataFrame:
    frame = pd.DataFrame({"domain": moments_series(values), "loss": LOSSES, "x": [1.0, 2, 3, 4]})
    frame["y"] = [0, 1, 0, 1]
    if ending == ".csv":
        # A CSV file holds texts: what names they are is decided where it is written.
        named = number_domains(values)
        frame["domain"] = [str(named.names[i]) for i in named.ids]
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return frame


ENTRANCES: dict[str, Callable[[Any], Any]] = {
    "domain_risks": lambda d: eqrm.domain_risks(torch.tensor(LOSSES), d).names,
    "an objective's errors": lambda d: named_in_error(d),
    "evaluate arrays": lambda d: eqrm.evaluate(losses=LOSSES, domains=d).domains,
    "RiskAccumulator": lambda d: accumulated(d),
    "groups": lambda d: fitted(d).domains_,
    "unseen groups": lambda d: fitted(d).measured_risks(X, LOSSES, d).domains,
    "DomainMoments": lambda d: DomainMoments.from_arrays(X, np.array(LOSSES), d).names,
    "DomainData": lambda d: DomainData.from_arrays(X, LOSSES, d).names,
    "Table": lambda d: sorted(set(Table({"x": X[:, 0]}, LOSSES, d).domains), key=name_order),
}


def fitted(domains: Any) -> eqrm.QRMRegressor:
    return eqrm.QRMRegressor(alpha=None, l2=1.0).fit(X, LOSSES, groups=domains)


def accumulated(domains: Any) -> Any:
    gathered = RiskAccumulator()
    gathered.update(LOSSES, domains)
    return gathered.compute().domains


def named_in_error(domains: Any) -> list[str]:
    """The names that an objective gives to domains whose risks are not finite."""
    numbered = number_domains(domains)
    found = []
    for place in range(len(numbered.names)):
        bad = torch.tensor(np.where(numbered.ids == place, np.nan, 1.0))
        with pytest.raises(DomainDataError) as caught:
            eqrm.EQRM(0.9)(bad, domains)
        found.append(str(caught.value).split("domain ")[1].split(" is nan")[0].strip("'"))
    return found


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_has_one_name_everywhere(kind: str, entrance: str) -> None:
    values, names = KINDS[kind]
    found = {form: ENTRANCES[entrance](make(values)) for form, make in FORMS.items()}
    assert {form: [str(name) for name in given] for form, given in found.items()} == dict.fromkeys(
        FORMS, names
    )


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_in_a_file_has_the_same_name(kind: str, ending: str, tmp_path: Path) -> None:
    values, names = KINDS[kind]
    path = tmp_path / f"table{ending}"
    frame = from_file(values, path, ending)
    rows = eqrm.evaluate(path, domains="domain", losses="loss")
    streamed = eqrm.evaluate(
        path, domains="domain", target="loss", predictions="x", metric=lambda y, p: np.abs(y - p)
    )
    table = read_table(path, target="y", domain="domain", features=["x"])
    in_memory = eqrm.evaluate(frame, domains="domain", losses="loss")
    several = eqrm.evaluate(path, domains=["domain", "y"], losses="loss")
    assert [str(name) for name in rows.domains] == names
    assert [str(name) for name in streamed.domains] == names
    assert [str(name) for name in in_memory.domains] == names
    assert sorted(table.domain_names, key=name_order) == names
    assert {name.split(" | ")[0] for name in map(str, several.domains)} == set(names)


MISSING: dict[str, list[Any]] = {
    "None": ["a", None, "a", "b"],
    "blank": ["a", " ", "a", "b"],
    "NaN": [1.0, float("nan"), 1.0, 2.0],
    "NaT": [pd.Timestamp(2013, 1, 31), pd.NaT, pd.Timestamp(2013, 1, 31), pd.Timestamp(2013, 2, 1)],
    "NA": [1, pd.NA, 1, 2],
}


def test_a_domain_behind_a_mask_is_missing() -> None:
    with pytest.raises(DomainDataError, match="missing in 1 of 4 rows"):
        eqrm.evaluate(domains=np.ma.array([1, 0, 1, 2], mask=[0, 1, 0, 0]), losses=[0.5] * 4)


@pytest.mark.parametrize("entrance", list(ENTRANCES))
@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_domain_is_refused_everywhere(kind: str, entrance: str) -> None:
    for form in ("list", "pandas", "categorical"):
        if (kind, form) == ("blank", "categorical"):
            continue  # a category is there, whatever it is called
        row = 2 if entrance == "Table" else 1  # rows of tables are counted from 1
        with pytest.raises(DomainDataError, match=rf"missing in 1 of 4 rows \(first: row {row}\b"):
            ENTRANCES[entrance](FORMS[form](MISSING[kind]))


@pytest.mark.parametrize("entrance", list(ENTRANCES))
def test_fractions_are_no_names(entrance: str) -> None:
    for make in FORMS.values():
        with pytest.raises(DomainDataError, match=r"integers, strings or dates, got 0\.5"):
            ENTRANCES[entrance](make([0.5, 1.0, 0.5, 1.0]))


@pytest.mark.parametrize("values", [[1, "1", 1, "1"], [True, 1, True, 1], ["a", DAYS[0], "a", "b"]])
def test_kinds_are_not_mixed(values: list[Any]) -> None:
    with pytest.raises(DomainDataError, match="must all be of one kind"):
        number_domains(values)


def test_a_name_does_not_depend_on_the_other_domains() -> None:
    day, hour = np.datetime64("2013-01-31"), np.datetime64("2013-01-31T17:45:00.5")
    assert number_domains([day]).names == ("2013-01-31",)
    assert number_domains(np.array([day, hour])).names == ("2013-01-31", "2013-01-31 17:45:00.5")
    assert number_domains([np.datetime64("2013-01-31T10:20:00")]).names == ("2013-01-31 10:20:00",)


CASES = {
    "close together": [3, 1, 3, 2, 1, 7],
    "negative": [-5, 0, -5, 3],
    "far apart": [10**12, -(10**12), 5, 10**12],
    "the ends of int64": [2**63 - 1, -(2**63), 0],
}


@pytest.mark.parametrize("domains", CASES.values(), ids=CASES)
def test_domains_are_numbered_as_numpy_sorts_them(domains: list[int]) -> None:
    names, inverse, counts = np.unique(domains, return_inverse=True, return_counts=True)
    losses = np.arange(float(len(domains)))
    means = [losses[inverse == e].mean() for e in range(len(names))]
    for given in (losses, torch.from_numpy(losses)):
        for each in (domains, np.array(domains), torch.tensor(domains)):
            risks = eqrm.domain_risks(given, each)
            assert list(risks.names) == names.tolist()
            assert risks.counts.tolist() == counts.tolist()
            assert risks.ids.tolist() == inverse.tolist()
            assert risks.values.tolist() == pytest.approx(means)


@pytest.mark.parametrize("num_domains", [None, 25])
def test_arrays_and_tensors_give_the_same_risks(num_domains: int | None) -> None:
    rng = np.random.default_rng(3)
    losses, ids = rng.random(200), rng.integers(20, size=200)
    losses, ids = np.append(losses, 7.0), np.append(ids, 23)  # a domain of one
    tensor = torch.from_numpy(losses).requires_grad_()
    found = eqrm.domain_risks(losses, ids, num_domains)
    wanted = eqrm.domain_risks(tensor, ids, num_domains)
    for name in ("values", "counts", "weights", "loss_variances", "sampling_variances"):
        of_arrays, of_tensors = getattr(found, name), getattr(wanted, name)
        if of_tensors is None:
            assert of_arrays is None
        else:
            assert isinstance(of_arrays, np.ndarray)
            assert of_arrays.dtype == of_tensors.detach().numpy().dtype
            np.testing.assert_allclose(of_arrays, of_tensors.detach().numpy(), rtol=1e-14)
    assert wanted.sampling_variances.requires_grad
    assert found.measured().to_dict() == wanted.measured().to_dict()


@pytest.mark.parametrize(
    ("losses", "domains", "message"),
    [
        (torch.ones(3), "abc", "list, an array or a column"),
        (torch.ones(2), {1: 2, 3: 4}, "list, an array or a column"),
        (torch.ones(2), 5, "list, an array or a column"),
        (torch.ones(2), [1, "1"], "numbers and strings"),
        (torch.ones(2), [["a"], ["b"]], r"got \['a'\]"),
        (torch.ones(3), ["a", "b"], r"there are 3 rows, got the shape \(2,\)"),
        (torch.ones(3), np.zeros((3, 2), dtype=int), r"got the shape \(3, 2\)"),
        (torch.ones(2), torch.tensor([1j, 2j]), "integers, strings or dates"),
        (None, [1], "list of numbers, got NoneType"),
        ([[1.0], [1.0, 2.0]], [1, 2], "list of numbers, got list"),
        ([1, 2], [1, 2], "floating-point numbers, got int"),
        (0.5, [1], r"got the shape \(\). Use reduction"),
    ],
)
def test_what_cannot_name_domains_is_refused(losses: object, domains: object, message: str) -> None:
    with pytest.raises(DomainDataError, match=message):
        eqrm.domain_risks(losses, domains)
