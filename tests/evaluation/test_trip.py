"""The functions that a table passes on its way into an evaluation: twelve at most."""

from __future__ import annotations

from pathlib import Path

import pytest

import eqrm
from evaluation.routes import ROUTES, world
from trips import check_trip, listed_trip

TRIPS = {
    "frame": (
        *("evaluate.evaluate", "evaluate.measured_models", "measurement_spec.of_table"),
        *("from_arrays.risks_of_arrays", "from_arrays._predicted", "from_arrays._reduced"),
        *("risks.domain_risks", "risks.measured", "domain_columns.facts_of_arrays"),
        *("evaluate.evaluation_of", "evaluated_domains.evaluated", "evaluation.__init__"),
    ),
    "parquet": (
        *("evaluate.evaluate", "evaluate.measured_models", "from_files.risks_of_files"),
        *("files.opened", "from_files._of_columns", "loss_columns.loss_columns"),
        *("grouped_losses.grouped_losses", "risks.of", "domain_columns.facts_of_files"),
        *("evaluate.evaluation_of", "evaluated_domains.evaluated", "evaluation.__init__"),
    ),
}
"""In order: the columns, then their losses, then the risks of domains."""


@pytest.mark.parametrize("route", TRIPS)
def test_the_trip_of_a_table_is_at_most_twelve_functions_long(route: str, tmp_path: Path) -> None:
    data = ROUTES[route](world(), tmp_path)
    given = {"domains": "ward", "target": "y", "predictions": "erm"}
    check_trip(TRIPS[route], lambda: eqrm.evaluate(data, **given))


def test_the_page_on_the_architecture_lists_the_trip_of_a_file() -> None:
    assert listed_trip("eqrm.evaluate") == list(TRIPS["parquet"])
