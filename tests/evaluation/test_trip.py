"""The functions that a table passes on its way into an evaluation: twelve at most."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import eqrm
from evaluation.routes import ROUTES, world

TRIPS = {
    "frame": (
        *("evaluate.evaluate", "evaluate.measured_predictors", "measurement_spec.of_table"),
        *("from_arrays.risks_of_arrays", "from_arrays._predicted", "from_arrays._reduced"),
        *("risks.domain_risks", "risks.measured", "domain_columns.facts_of_arrays"),
        *("evaluate.evaluation_of", "evaluated_domains.of", "evaluation.__init__"),
    ),
    "parquet": (
        *("evaluate.evaluate", "evaluate.measured_predictors", "from_files.risks_of_files"),
        *("files.opened", "from_files._of_columns", "loss_columns.loss_columns"),
        *("grouped_losses.grouped_losses", "risks.of", "domain_columns.facts_of_files"),
        *("evaluate.evaluation_of", "evaluated_domains.of", "evaluation.__init__"),
    ),
}
"""In order: the columns, then their losses, then the risks of domains."""


def called_by(frame: Any) -> tuple[str, str]:
    """A function of eqrm, and the one that called it: without comprehensions."""
    names = []
    while frame is not None and len(names) < 2:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("eqrm.") and frame.f_code.co_name[:1] != "<":
            names.append(f"{module.rpartition('.')[2]}.{frame.f_code.co_name}")
        frame = frame.f_back
    return names[0], names[1] if len(names) > 1 else ""


@pytest.mark.parametrize("route", TRIPS)
def test_the_trip_of_a_table_is_at_most_twelve_functions_long(route: str, tmp_path: Path) -> None:
    data, calls, stations = ROUTES[route](world(), tmp_path), [], TRIPS[route]
    given = {"domains": "ward", "labels": "y", "predictions": "erm"}
    eqrm.evaluate(data, **given)  # everything is imported

    def note(frame: Any, event: str, _: Any) -> None:
        module = str(frame.f_globals.get("__name__"))
        if event == "call" and module.startswith("eqrm.") and frame.f_code.co_name[:1] != "<":
            calls.append(called_by(frame))

    sys.setprofile(note)
    try:
        eqrm.evaluate(data, **given)
    finally:
        sys.setprofile(None)
    assert len(stations) <= 12
    place = -1
    for station in stations:
        callers = dict(calls[place + 1 :][::-1])  # the first call of each function
        assert callers.get(station) in (*stations, ""), station
        place = [called for called, _ in calls].index(station, place + 1)
