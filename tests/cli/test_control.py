"""``eqrm control``, what ``eqrm predict`` and ``eqrm watch`` make of a point, and ``train``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eqrm
from cli.commands import called, printed_by, refused
from eqrm.evaluation import OperatingPoint

FLIGHTS = ("--target", "late", "--domain", "day")


def days(first: int, last: int) -> pd.DataFrame:
    """Every twentieth of the flights on some days of 2013, with hour and weather as numbers."""
    frame = eqrm.data.load_flights(weather=True).frame().iloc[::20]
    frame = frame.drop(columns=["carrier", "origin"]).astype({"hour": float})
    frame["late"] = np.where(frame["late"] == 1, "yes", "no")
    day = pd.to_datetime(frame["day"]).dt.day_of_year
    return frame[(day > first) & (day <= last)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 120 days, and what it predicts for 160 later ones."""
    place = tmp_path_factory.mktemp("control")
    for name, first, last in (("train", 0, 120), ("past", 120, 280), ("new", 280, 365)):
        days(first, last).to_parquet(place / f"{name}.parquet")
    called(
        "train",
        str(place / "train.parquet"),
        *FLIGHTS,
        "--model",
        "linear",
        "--output",
        str(place / "run"),
    )
    predict = ("predict", str(place / "run"))
    called(*predict, str(place / "past.parquet"), "--output", str(place / "past_p.parquet"))
    return place


OPTIONS = (*FLIGHTS, "--prediction", "m=p_{class}", "--require", "wrong <= 15%")


def test_from_control_to_decisions_and_a_watch_by_command_and_in_python(folder: Path) -> None:
    past, point = str(folder / "past_p.parquet"), folder / "point.json"
    printed = printed_by("control", past, *OPTIONS, "--save", str(point))
    assert printed.startswith("Use 'm': answer where the confidence is above 0.")
    assert "at least 90% of new domains of similar size have at most 15% of all rows" in printed
    given = {"domains": "day", "target": "late", "require": "wrong <= 15%"}
    found = eqrm.control(past, {"m": "p_{class}"}, **given)
    assert eqrm.load(point, OperatingPoint).to_dict() == found.to_dict()
    assert found.sentence.split() == printed.split()[: len(found.sentence.split())]

    new, made = folder / "new.parquet", folder / "new.csv"
    told = printed_by(
        *("predict", str(folder / "run"), str(new), "--output", str(made)), "--control", str(point)
    )
    assert "Decisions (answer, passed): answer where the confidence is above 0." in told
    table = pd.read_csv(made, keep_default_na=False)
    result = eqrm.load(folder / "run")
    predictions = result.predict(str(new))
    own = found.apply(predictions[["p_no", "p_yes"]].to_numpy(), classes=["no", "yes"])
    np.testing.assert_array_equal(table.passed.astype(str).str.lower() == "true", own["passed"])
    np.testing.assert_array_equal(table.answer, ["" if a is None else a for a in own["answer"]])
    wrong = (~table.passed.astype(bool) & (table.answer != table.late)).groupby(table.day).mean()

    state = str(folder / "watch")
    columns = (*FLIGHTS, "--prediction", "p_{class}")
    start = ("watch", state, "--start", str(point), *columns)
    assert "leave out --alpha" in refused(*start, "--alpha", "0.8")
    code, watched, _ = called("watch", state, "--start", str(point), *columns, "--new", str(made))
    assert "Watching whether new domains have at most 15% of all rows answered wrongly" in watched
    assert "85 new domains" in watched
    missed = int((wrong > 0.15 + 1e-9).sum())
    assert f"{missed} of 85 domains missed the bound" in watched
    assert code == 3
    assert "Suspicious: " in watched
    twice = called("watch", state, "--new", str(made), str(made))
    assert twice[0] in (0, 2, 3)


def test_sets_and_intervals_of_files(folder: Path) -> None:
    past = str(folder / "past_p.parquet")
    sets = ("--require", "coverage >= 80%", "--score", "aps", "--save", str(folder / "sets.json"))
    printed_by("control", past, *FLIGHTS, "--prediction", "p_{class}", *sets)
    new, made = str(folder / "new.parquet"), folder / "sets.parquet"
    run = ("predict", str(folder / "run"), new, "--control", str(folder / "sets.json"))
    printed_by(*run, "--output", str(made))
    found = pd.read_parquet(made)["set"]
    assert {tuple(sorted(each)) for each in found} <= {(), ("no",), ("yes",), ("no", "yes")}
    printed_by(*run, "--output", str(folder / "sets.csv"))
    texts = pd.read_csv(folder / "sets.csv", keep_default_na=False)["set"]
    assert texts.tolist() == ["|".join(each) for each in found]
    assert "p_" in refused("control", past, *FLIGHTS, "--prediction", "p", *sets[:4])
    binary = pd.read_parquet(past).assign(late=lambda table: (table.late == "yes").astype(int))
    binary.to_parquet(folder / "binary.parquet")
    one = ("--prediction", "p_yes", "--require", "coverage >= 90%")
    told = refused("control", str(folder / "binary.parquet"), *FLIGHTS, *one)
    assert "around which intervals make no sense" in told


def test_a_training_by_a_requirement_hands_over_its_point(folder: Path) -> None:
    everything = days(0, 120)
    options = {"model": "linear", "require": "wrong <= 20%"}
    found = eqrm.train(everything, "late", "day", **options)  # type: ignore[arg-type]
    assert found.point is not None
    assert found.point.needed.cross_fitted
    assert "(best where 'wrong <= 20%' is required)" in found.printed()
    assert "answered: where 9 in 10 of these days meet it" in found.printed()
    assert "not proven" in found.printed()
    kept = eqrm.train(everything, "late", "day", certify=0.4, **options)  # type: ignore[arg-type]
    assert kept.point is not None
    assert len(kept.point.needed.domains) == 48
    assert "of the same model fitted without" in kept.printed()
    assert kept.point.needed.cross_fitted  # what is handed over is fitted to all days
    kept.save(folder / "required")
    again = eqrm.load(folder / "required").point
    plain = next((folder / "required" / "models").glob("*plain*"))
    new = ("predict", str(plain), str(folder / "new.parquet"), "--output", str(folder / "o.csv"))
    told = refused(*new, "--control", str(folder / "required" / "point.json"))
    assert "is of the model 'logistic, " in told
    assert again.to_dict() == kept.point.to_dict()
    assert "answered wrongly" in (folder / "required/report.html").read_text(encoding="utf-8")
    few = eqrm.train(days(0, 20), "late", "day", **options)  # type: ignore[arg-type]
    assert few.point is None
    assert "No operating point. No setting can be promised" in few.printed()


def test_refusals(folder: Path, tmp_path: Path) -> None:
    past = str(folder / "past_p.parquet")
    told = refused("control", past, *FLIGHTS, "--prediction", "p_yes", "--require", "right >= 95%")
    assert "Unknown requirement 'right'" in told
    told = refused("control", past, *FLIGHTS, "--require", "wrong <= 5%")
    assert "--prediction is missing" in told
    both = ("--true", "--spells", "--prediction", "p_{class}", "--require", "wrong <= 5%")
    assert "--true is for shares of all rows" in refused("control", past, *FLIGHTS, *both)
    forged = tmp_path / "forged.json"
    printed_by("control", past, *OPTIONS, "--save", str(forged))
    content = json.loads(forged.read_text())
    content["content"]["models"]["m"]["setting"] = 0.5
    forged.write_text(json.dumps(content))
    run = ("predict", str(folder / "run"), past, "--output", str(tmp_path / "out.csv"))
    assert "does not match its checksum" in refused(*run, "--control", str(forged))
    start = (
        "watch",
        str(tmp_path / "w"),
        "--start",
        str(forged),
        *FLIGHTS,
        "--prediction",
        "p_yes",
    )
    assert "checksum" in refused(*start)
    point, columns = str(tmp_path / "point.json"), ("--domain", "day", "--target", "hour")
    require = ("--prediction", "wind_speed", "--require", "coverage >= 90%")
    days_as_they_are = str(folder / "past.parquet")
    printed_by("control", days_as_they_are, *columns, *require, "--save", point)
    start = ("watch", str(tmp_path / "w"), "--start", point, *columns)
    assert "not those of decisions" in refused(*start, "--prediction", "lower:upper")
    rows = pd.DataFrame(
        {"day": np.repeat(np.arange(40), 2), "s": [0, 1] * 40, "l": [0.5, 0.1] * 40}
    )
    rows.to_csv(tmp_path / "l.csv", index=False)
    grid = ("--domain", "day", "--loss", "l", "--setting", "s", "--require", "loss <= 0.2")
    told = printed_by("control", str(tmp_path / "l.csv"), *grid, "--save", point)
    assert told.rstrip().endswith("point.json")
    start = ("watch", str(tmp_path / "w"), "--start", point, "--domain", "day", "--loss", "l")
    assert "is watched as the loss itself" in refused(*start)
    table = str(folder / "train.parquet")
    told = refused("train", table, *FLIGHTS, "--require", "loss <= 1", "--model", "linear")
    assert "does not apply to predictions of 2 classes" in told
