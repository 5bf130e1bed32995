"""Tables need no torch: every command and estimator for them, with the same numbers to 1e-12."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("without_torch.py")


def test_tables_need_no_torch_and_give_the_same_numbers(tmp_path: Path) -> None:
    folders = tmp_path / "without", tmp_path / "with"
    for folder, more in zip(folders, ((), ("torch",)), strict=True):
        folder.mkdir()
        found = subprocess.run(
            [sys.executable, str(PROGRAM), str(folder), *more],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert found.returncode == 0, found.stderr[-3000:]
    compared = 0
    for without in sorted(folders[0].rglob("*.json")):
        other = folders[1] / without.relative_to(folders[0])
        compared += same(json.loads(without.read_text()), json.loads(other.read_text()), without)
    assert compared > 1000
    one, two = ((folder / "predictions.csv").read_text() for folder in folders)
    assert one == two


def same(one: Any, two: Any, where: object) -> int:
    """Compare two contents of JSON, numbers to 1e-12; how many numbers there were."""
    assert type(one) is type(two), where
    if isinstance(one, dict):
        assert one.keys() == two.keys(), where
        return sum(same(one[key], two[key], f"{where}: {key}") for key in one)
    if isinstance(one, list):
        assert len(one) == len(two), where
        return sum(same(a, b, where) for a, b in zip(one, two, strict=True))
    if isinstance(one, float):
        assert np.isclose(one, two, rtol=1e-12, atol=1e-300, equal_nan=True), (where, one, two)
        return 1
    if not isinstance(one, str):  # messages may name the folder
        assert one == two, where
    return 0


@pytest.mark.parametrize("kind", ["KDE", "Empirical", "Gaussian", "LogNormal"])
def test_laws_of_arrays_and_tensors_agree(kind: str) -> None:
    """Also shallow and deep, with weights and ties, of one row and of many."""
    import torch

    import eqrm

    rng = np.random.default_rng(0)
    law = getattr(eqrm.distributions, kind)
    for shape in ((2,), (7,), (5, 40), (2, 3, 9)):
        risks = rng.gamma(2.0, 0.5, shape)
        risks[..., 0] = risks[..., 1]
        for weights in (None, rng.random(shape[-1])):
            array = law(risks, weights=weights)
            tensor = law(torch.from_numpy(risks), weights=weights)
            for level in (0.01, 0.5, 0.9, "1-e^-1000"):
                for method in ("quantile", "superquantile"):
                    one, two = getattr(array, method)(level), getattr(tensor, method)(level)
                    assert not hasattr(one, "detach")
                    np.testing.assert_allclose(one, two.numpy(), rtol=1e-12, err_msg=f"{method}")
