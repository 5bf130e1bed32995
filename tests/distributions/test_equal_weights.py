"""Quantiles of equal weights, found without tensors, are those of the empirical law."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from eqrm.distributions.empirical import Empirical
from eqrm.distributions.equal_weights import INTERPOLATIONS, equal_quantile
from eqrm.level import Level


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("level", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0, "1-e^-50"])
def test_quantiles_are_those_of_the_empirical_law(interpolation: str, level: float | str) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 10, 11):
        for risks in (rng.normal(size=size), rng.integers(0, 3, size).astype(float)):
            law = Empirical(torch.from_numpy(risks), interpolation=interpolation)
            found = equal_quantile(risks.tolist(), Level.of(level), interpolation)
            exact = interpolation == "step"
            assert found == pytest.approx(float(law.quantile(level)), rel=0 if exact else 1e-15)


def test_tables_of_sweeps_wait_for_neither_torch_nor_sklearn() -> None:
    code = (
        "import sys, eqrm.sweeps.tables.tabulating, eqrm.sweeps.tables.formats\n"
        "print({'torch', 'sklearn', 'scipy.stats', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
