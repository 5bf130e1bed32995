"""Two gloo processes train exactly as one process with all the data."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from objectives.two_processes import (
    DTYPES,
    STEPS,
    batches,
    cases,
    network,
    ready,
    run_in_two_processes,
    train,
)

# One worker, so that these processes, and their server, start once (pytest -n 2 --dist loadgroup).
pytestmark = [
    pytest.mark.xdist_group("two processes"),
    pytest.mark.filterwarnings("ignore::eqrm.objectives.training_warnings.SmallBatchWarning"),
]

TOLERANCE = {"float32": 1e-6, "float64": 1e-10}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    return run_in_two_processes(tmp_path_factory.mktemp("processes"), full=False)


@cache
def in_one_process(name: str, dtype: str) -> dict[str, Any]:
    return train(ready(name), network(DTYPES[dtype]), batches(DTYPES[dtype]))


def compare(found: list[dict[Any, Any]], name: str, layout: str, dtype: str) -> None:
    """Both processes end where one process ends, with the same losses and the same state."""
    expected = in_one_process(name, dtype)
    start = torch.nn.utils.parameters_to_vector(network(DTYPES[dtype]).parameters())
    assert (expected["parameters"] - start).abs().max() > 0.05
    first, second = (of_rank[name, layout, dtype] for of_rank in found)
    for mine in (first, second):
        error = (mine["parameters"] - expected["parameters"]).abs().max().item()
        assert error <= TOLERANCE[dtype]
        assert len(mine["losses"]) == STEPS
        assert mine["losses"] == pytest.approx(expected["losses"], rel=TOLERANCE[dtype])
    assert first["losses"] == second["losses"]
    assert first["state"].keys() == second["state"].keys()
    for key, value in first["state"].items():
        assert torch.equal(value, second["state"][key]), key


def compare_eqrm(found: list[dict[Any, Any]], case: str) -> None:
    """A variant of EQRM's training ends where the plain one ends."""
    expected = in_one_process("eqrm-kde", "float64")
    for of_rank in found:
        error = (of_rank[case]["parameters"] - expected["parameters"]).abs().max().item()
        assert error <= TOLERANCE["float64"]
        assert of_rank[case]["losses"] == pytest.approx(expected["losses"], rel=1e-10)


@pytest.mark.parametrize(("name", "layout", "dtype"), cases(full=False))
def test_twenty_steps_in_two_processes_are_those_of_one(
    name: str, layout: str, dtype: str, found: list[dict[Any, Any]]
) -> None:
    compare(found, name, layout, dtype)


@pytest.mark.full
def test_every_objective_layout_and_dtype_in_two_processes(tmp_path: Path) -> None:
    everything = run_in_two_processes(tmp_path, full=True)
    for case in cases(full=True):
        compare(everything, *case)
    compare_eqrm(everything, "compiled")


def test_accumulation_works_across_processes(found: list[dict[Any, Any]]) -> None:
    compare_eqrm(found, "accumulated")


def test_errors_are_raised_in_every_process(found: list[dict[Any, Any]]) -> None:
    for of_rank in found:
        assert "pass integer ids and num_domains" in of_rank["errors"]["without num_domains"]
        for case in ("NaN in one process", "NaN for ERM"):
            assert of_rank["errors"][case].startswith("The risk of domain 3 is nan.")
