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
    integer,
    one_of,
    optional,
    refuse_unknown,
)
from eqrm.errors import SettingError


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


def test_long_values_and_many_names_are_cut_in_errors() -> None:
    with pytest.raises(SettingError, match=r"^seed must be an integer, got \[0, 0, .*…\.$") as one:
        integer().check([0] * 1_000_000, "seed")
    with pytest.raises(SettingError, match=r"and 59,980 more\. Choose from: steps") as many:
        refuse_unknown([f"k{number}" for number in range(60_000)], ["steps"], "The plan")
    with pytest.raises(SettingError, match="Unknown objective ") as unknown:
        one_of([0] * 1_000_000, ["erm"], "objective")
    assert max(len(str(each.value)) for each in (one, many, unknown)) < 500
