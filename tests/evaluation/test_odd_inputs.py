"""Odd tables, columns, arrays and numbers: the right answer, or an error that says what to do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.rounding import rounded_up

LOSSES = [1.0, 2.0, 3.0, 4.0]
WARDS = ["a", "b", "a", "b"]
QUESTION = {"domains": "d", "losses": "loss"}


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_one_probability_in_the_last_row_of_a_csv_makes_all_of_them_probabilities(
    tmp_path: Path,
) -> None:
    rows = 40_000  # more than DuckDB looks at to guess a type
    labels, wards = np.arange(rows) % 2, np.arange(rows) % 3
    predictions = labels.astype(object)
    predictions[-2:] = [0.25, 0.75]
    frame = pd.DataFrame({"d": wards, "y": labels, "p": predictions})
    frame.to_csv(tmp_path / "p.csv", index=False)
    wrong = (frame.p.astype(float) >= 0.5) != (frame.y == 1)
    found = eqrm.evaluate(
        tmp_path / "p.csv", domains="d", target="y", predictions="p", metric="0-1"
    )
    np.testing.assert_array_equal(found["p"].risks, wrong.groupby(frame.d).mean())


def test_a_repeated_column_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "twice.csv", "d,loss,loss\na,1,2\nb,2,5\n")
    with pytest.raises(DomainDataError, match=r"twice\.csv has more than one column 'loss'"):
        eqrm.evaluate(path, **QUESTION)
    frame = pd.DataFrame([[1, 2.0, 3.0], [2, 3.0, 4.0]], columns=["d", "loss", "loss"])
    with pytest.raises(DomainDataError, match="2 columns 'loss'"):
        eqrm.evaluate(frame, **QUESTION)


def test_domains_that_are_numbers_in_one_file_are_paired_with_texts_in_another(
    tmp_path: Path,
) -> None:
    files = {
        "A": written(tmp_path / "a.csv", "d,loss\n2,1\n10,2\nx,3\n"),
        "B": written(tmp_path / "b.csv", "d,loss\n2,5\n10,6\n"),
    }
    with pytest.raises(DomainDataError, match=r"'B' has no examples of domain 'x'.*the 2 domains"):
        eqrm.evaluate(files, **QUESTION)
    found = eqrm.evaluate(files, **QUESTION, common_domains=True)
    assert found.domains == (2, 10)
    assert found["A"].risks.tolist() == [1.0, 2.0]
    assert found["B"].risks.tolist() == [5.0, 6.0]


BINARY = {"domains": WARDS, "target": [1, 0, 1, 0]}


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"domains": WARDS, "losses": [[1.0], [2.0, 3.0], [3.0], [4.0]]}, "different lengths"),
        ({"domains": WARDS, "losses": {}}, "No model"),
        ({"domains": WARDS, "losses": LOSSES, "bounds": (0, math.inf)}, "two finite numbers"),
        ({"domains": WARDS, "losses": LOSSES, "bounds": (1, 0)}, "two finite numbers"),
        ({"domains": WARDS, "losses": LOSSES, "bounds": 1}, "two finite numbers"),
        ({**BINARY, "predictions": np.zeros((4, 2, 2))}, r"got \(4,\) and \(4, 2, 2\)"),
        ({**BINARY, "predictions": [["a", "b"]] * 4}, "must be numbers"),
        ({**BINARY, "predictions": [0.5] * 4, "metric": None}, "a name or a function"),
        ({"domains": WARDS, "losses": [1e200, 1.0, -1e200, 1.0]}, "variance overflows"),
        ({"domains": WARDS, "losses": np.ma.array(LOSSES, mask=[0, 0, 0, 1])}, "a mask"),
        ({"domains": list("abcd"), "losses": [1e300, 1e-300, 1, 1]}, "domain 'a' are so large"),
    ],
)
def test_odd_arrays_are_refused(question: dict[str, Any], complaint: str) -> None:
    with pytest.raises((DomainDataError, SettingError), match=complaint):
        eqrm.evaluate(**question)


def test_a_metric_that_works_in_place_does_not_change_the_next_model() -> None:
    columns = {"a": [0.5, 0.1, 0.2, 0.3], "b": [0.5, 0.1, 0.2, 0.3]}
    found = eqrm.evaluate(
        [1.0, 0.0, 1.0, 0.0], columns, WARDS, metric=lambda y, p: y.__isub__(p) ** 2
    )
    assert found["a"].risks.tolist() == found["b"].risks.tolist()


@pytest.mark.parametrize("losses", [["u", "v"], None, [], [1.0]])
def test_an_accumulator_refuses_what_is_not_one_loss_per_domain(losses: Any) -> None:
    gathered = eqrm.evaluation.RiskAccumulator()
    with pytest.raises(DomainDataError, match=r"[Ll]oss|2 rows|got the shape"):
        gathered.update(losses, ["a", "b"])
    gathered.update(pd.Series([1.0, 2.0], index=[7, 8]), pd.Series(["a", "b"]))
    assert gathered.compute().risks.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("scale", [5e-324, 1e150])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_risks_of_any_size_have_a_table_and_a_report(
    scale: float, sign: float, tmp_path: Path
) -> None:
    shape = [1 + (i % 7) + (i % 40) for i in range(160)]
    found = eqrm.evaluate(
        domains=[i % 40 for i in range(160)], losses=[sign * scale * factor for factor in shape]
    )
    assert found.risk_table().to_text()
    assert math.isfinite(found.noise["model"].tail_noise_share)  # type: ignore[union-attr]
    write_report(found, tmp_path / "report.html")
    bound = found.certificate(0.9)
    assert float(rounded_up(bound.bound)) >= bound.bound - 1e-12 * abs(bound.bound)


def test_a_frame_may_hold_the_probabilities_of_classes_as_lists(tmp_path: Path) -> None:
    frame = pd.DataFrame({"d": WARDS, "y": [0, 1, 1, 0], "p": [[0.25, 0.75], [0.5, 0.5]] * 2})
    frame.to_parquet(tmp_path / "p.parquet")
    question = {"domains": "d", "target": "y", "predictions": "p"}
    of_file = eqrm.evaluate(tmp_path / "p.parquet", **question)
    for table in (frame, pd.read_parquet(tmp_path / "p.parquet")):
        assert eqrm.evaluate(table, **question).to_dict() == of_file.to_dict()
    with pytest.raises(DomainDataError, match="different lengths"):
        eqrm.evaluate(frame.assign(p=[[1.0], [0.5, 0.5]] * 2), **question)


@pytest.mark.parametrize("metric", ["absolute", lambda y, p: np.abs(y - p)])
@pytest.mark.parametrize("in_file", [True, False])
def test_columns_that_only_look_alike_when_joined_stay_apart(
    metric: Any, in_file: bool, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"a": ["x | y", "x"], "b": ["z", "y | z"], "y": [0.0, 0.0], "p": [1.0, 2]})
    frame.to_parquet(tmp_path / "p.parquet")
    found = eqrm.evaluate(
        tmp_path / "p.parquet" if in_file else frame,
        domains=["a", "b"],
        target="y",
        predictions="p",
        metric=metric,
    )
    assert dict(zip(found.domains, found["p"].risks.tolist(), strict=True)) == {
        r"x \| y | z": 1.0,
        r"x | y \| z": 2.0,
    }


@pytest.mark.parametrize("in_file", [True, False])
def test_a_row_per_domain_without_its_predictor_is_refused(in_file: bool, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"d": [1, 2, 1, 2], "m": ["A", "A", None, "B"], "n": 2, "mean": 0.5, "variance": 1.0}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = tmp_path / "t.csv" if in_file else frame
    with pytest.raises(DomainDataError, match="The model of row 3 is missing"):
        eqrm.evaluate(data, domains="d", aggregated=True, model="m")
