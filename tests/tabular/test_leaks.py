"""Tables in which models are judged on what they have seen are told of first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm

pytestmark = pytest.mark.usefixtures("no_figure")


def visits(domains: int = 40, rows: int = 25) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, clinic = rng.normal(size=domains * rows), np.repeat(np.arange(domains), rows)
    ill = np.where(x + rng.normal(size=len(x)) > 0.0, "yes", "no")
    ward = rng.choice(["A", "B"], len(x))
    return pd.DataFrame({"x": x, "ward": ward, "clinic": clinic, "ill": ill}).astype(
        {"clinic": str}
    )


def minded(frame: pd.DataFrame, **options: Any) -> list[str]:
    frame = frame.assign(clinic="Clinic " + frame["clinic"]) if "clinic" in frame else frame
    given: dict[str, Any] = {
        "target": "ill",
        "domain": "clinic",
        "model": "linear",
        "measure": "mean",
        **options,
    }
    screen = eqrm.train(frame, **given).printed()
    return [line[9:] for line in screen.splitlines() if line.startswith("Mind")]


def test_domains_and_classes_that_differ_in_spelling_alone_are_named_first() -> None:
    frame, half = visits(), np.arange(1000) % 2 == 0
    frame["clinic"] = np.where(
        half & (frame["clinic"] < "2"), frame["clinic"] + " ", frame["clinic"]
    )
    found = minded(frame)[0]
    assert found.startswith("The domains 'Clinic 0' and 'Clinic 0 ' differ in capitals or spaces")
    assert "(and 11 more such pairs)" in found
    frame = visits()
    frame.loc[half, "ill"] = frame.loc[half, "ill"].str.upper()
    found = minded(frame)[0]
    assert "classes 'NO' and 'no' differ in capitals or spaces alone, and count as two (" in found


def test_rows_that_are_copied_to_other_domains_are_counted() -> None:
    frame = visits()
    copies = frame.sample(frac=0.3, random_state=0)
    copies["clinic"] = ((copies["clinic"].astype(int) + 7) % 40).astype(str)
    found = minded(pd.concat([frame, copies]))[0]
    assert found.startswith(
        "300 of 1,300 rows have the features and the target of a row of another"
    )
    assert not any("copies" in each for each in minded(frame))


def test_predictions_that_are_too_good_to_be_true_are_doubted() -> None:
    frame = visits()
    frame["discharged"] = np.where(frame["ill"] == "yes", 1.0, 0.0) + frame["x"] / 100.0
    (found,) = [each for each in minded(frame) if "made from the target" in each]
    assert found.startswith("predictions are all but perfect (AUC above 0.9995)")
    assert found.endswith("Leave it out (drop)")
