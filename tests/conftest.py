"""Which tests are not measured by coverage, and what tests of trainings share."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
import typer.main
import typer.testing

from measuring import listening, measure_imports_of, tracer_of_coverage
from shared_database import connect_to_shared, new_database

TESTS = Path(__file__).parent

# Measured Python takes about twice as long. These tests compute much and run lines that other
# tests run too (or, like subprocesses that are killed, report nothing), so they are not measured.
UNMEASURED = {
    "adversarial/test_control_characters.py",
    "adversarial/test_kills_and_leaks.py",
    "adversarial/test_risk_vectors.py",
    "architecture/test_layout.py",
    "cli/test_train.py",
    "data/test_coloured_digits.py",
    "distributions/test_against_oracle.py",
    "distributions/test_derivatives.py",
    "distributions/test_published_gradient.py",
    "distributions/test_superquantiles.py",
    "estimators/test_many_small_domains.py",
    "estimators/test_sklearn_conformity.py",
    "evaluation/test_accumulator.py",
    "evaluation/test_coverage.py",
    "evaluation/test_noise.py",
    "linear/test_minimisers.py",
    "linear/test_recalibration.py",
    "linear/test_sklearn_conformity.py",
    "linear/test_superquantile.py",
    "objectives/test_across_processes.py",
    "objectives/test_conformance.py",
    "objectives/test_everywhere.py",
    "objectives/test_paper_relations.py",
    "sweeps/test_page.py",
    "sweeps/test_plan.py",
    "tabular/test_prediction_files.py",
    "tabular/test_recalibration_page.py",
    "tabular/test_table_training.py",
    "tabular/test_training_answer.py",
    "test_between_domains.py",
    "test_pages.py",
    "training/test_lightning.py",
    "training/test_page.py",
    "training/test_several_processes.py",
}
# Here only the first two cases of a test with parameters are: the others run the same lines again.
FIRST_CASES_MEASURED = {
    "cli/test_data.py",
    "distributions/test_degenerate_risks.py",
    "estimators/test_boosting_estimators.py",
    "estimators/test_measures.py",
    "estimators/test_surrogates.py",
    "evaluation/test_cdf_bands.py",
    "evaluation/test_references.py",
    "linear/test_closed_form.py",
    "objectives/test_risk_based.py",
    "objectives/test_risk_memory_noise.py",
    "predictors/test_image_networks.py",
    "studies/causal_recovery/test_causal_recovery.py",
    "studies/frontiers/test_frontiers.py",
    "studies/linear_sem/test_linear_sem.py",
    "studies/many_runs/test_many_runs.py",
    "studies/many_runs/test_stacked_objectives.py",
    "training/test_resume.py",
}
MEASURED_CASES = 2
MEASURED_PROGRAMS = "COVERAGE_PROCESS_CONFIG"
"""The variable by which coverage measures programs that a test starts."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    unmeasured = {TESTS / name for name in UNMEASURED}
    repeating = {TESTS / name for name in FIRST_CASES_MEASURED}
    cases = Counter[str]()
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        cases[test] += bool(parameters) and item.path in repeating
        if item.path in unmeasured or cases[test] > MEASURED_CASES:
            item.add_marker(pytest.mark.unmeasured)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without coverage, which takes as long again; see :mod:`measuring`.

    And without searching the growing heap for garbage, a tenth of the time: there is hardly any.
    """
    tracer = tracer_of_coverage()
    gc.disable()
    try:
        if tracer is None:
            return (yield)
        measure_imports_of("eqrm", tracer)
        with listening(tracer, False):
            return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def command_line_put_together_once() -> Generator[None]:
    """Typer makes all commands anew from their functions for every call, in a tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        once = cache(typer.main.get_command)
        patch.setattr("typer.main.get_command", once)
        patch.setattr("typer.testing._get_command", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def database_put_together_once() -> Generator[None]:
    """DuckDB makes all its functions anew for every database, in 0.03 seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duckdb.connect", connect_to_shared)
        yield


@pytest.fixture
def own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table that is read has a database of its own, as it has outside of tests."""
    monkeypatch.setattr("duckdb.connect", new_database)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test with the mark ``unmeasured``, and programs that it starts, without coverage.

    The mark ``no_cover`` of pytest-cov does nothing in the workers of pytest-xdist.
    """
    if item.get_closest_marker("unmeasured") is None:
        return (yield)
    tracer, setting = tracer_of_coverage(), os.environ.pop(MEASURED_PROGRAMS, None)
    try:
        with nullcontext() if tracer is None else listening(tracer, False):
            return (yield)
    finally:
        if setting is not None:
            os.environ[MEASURED_PROGRAMS] = setting


@pytest.fixture(scope="session")
def stand_in_made_once() -> Generator[None]:
    """The 70,000 digits that stand in for MNIST take four seconds; nobody changes them."""
    from eqrm.data.datasets import mnist

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, "stand_in_digits", cache(mnist.stand_in_digits))
        yield


@pytest.fixture
def routing() -> Generator[None]:
    """Pipelines and searches of scikit-learn hand on the groups."""
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings on tables write an empty file in place of the figure, which takes long to draw.

    On a slow machine they do not say how far they are.
    """
    monkeypatch.setattr("eqrm.tabular.steps.SILENCE", 3600.0)
    monkeypatch.setattr("eqrm.tabular.result.draw_cdfs_and_tails", lambda curves: None)
    monkeypatch.setattr("eqrm.tabular.result.save_figure", lambda figure, path: path.touch())
