"""Rules accept what their words say, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqrm.checks import (
    FLAG,
    FRACTION,
    NON_NEGATIVE,
    POSITIVE,
    POSITIVE_INTEGER,
    Rule,
    optional,
)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (POSITIVE, (1e-9, 5), (0, -1, math.inf, math.nan, "1", True, None)),
        (NON_NEGATIVE, (0, 0.0, 2.5), (-1e-9, math.inf, "0", None)),
        (FRACTION, (0, 0.5, 1), (-0.1, 1.1, math.nan, None)),
        (POSITIVE_INTEGER, (1, np.int64(7)), (0, 1.0, 2.5, True, None)),
        (FLAG, (True, False, np.True_), (0, 1, "yes", None)),
        (optional(POSITIVE), (None, 1.0), (0, "none")),
    ],
)
def test_rules_accept_what_they_say(
    rule: Rule, good: tuple[object, ...], bad: tuple[object, ...]
) -> None:
    assert [value for value in good if not rule.holds(value)] == []
    assert [value for value in bad if rule.holds(value)] == []
