"""The functions that a table passes on its way into a training: twelve at most."""

from __future__ import annotations

import eqrm
from cli.commands import hospitals
from trips import check_trip, listed_trip

TRIP = (
    *("entry.train", "entry.run_training", "entry.read_any_table", "reading.read", "sources.read"),
    *("preparation.prepare", "preprocessor.fit", "encoder.transform", "training.train_prepared"),
    *("cross_fitting.fit", "surrogates.cross_fit", "surrogates.fitted"),
)
"""In order: the columns, then what models are fitted to, then the fitted candidates."""


def test_the_trip_of_a_table_is_at_most_twelve_functions_long() -> None:
    frame = hospitals(number=12)
    check_trip(TRIP, lambda: eqrm.train(frame, "ill", "hospital", model="linear", measure="mean"))


def test_the_page_on_the_architecture_lists_the_trip() -> None:
    assert listed_trip("eqrm.train") == list(TRIP)
