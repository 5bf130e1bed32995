"""Gains over references at the edges: where there is nothing to divide by."""

from __future__ import annotations

import numpy as np

from eqrm import Level
from eqrm.evaluation.inference.gains import gain_over


def test_a_reference_without_risk_is_not_divided_by() -> None:
    zero, some = np.zeros(50), np.full(50, 0.1)
    found = gain_over({"a": zero, "b": some}, "b", "a", Level(0.9), 0.95)
    assert np.isfinite([found.change, found.error]).all()
    assert found.interval == "not bounded"
    assert not found.higher
