"""Generated risks and levels for property tests (hypothesis)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from oracle.catalogue import DISTRIBUTIONS, EQUIVARIANT_DISTRIBUTIONS

Test = TypeVar("Test", bound=Callable[..., None])


def cases(count: int) -> Callable[[Test], Test]:
    """Run a test on this many generated cases, the same ones every time."""
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


RISK = st.floats(min_value=1e-3, max_value=1e3, allow_subnormal=False)
RISKS = st.lists(RISK, min_size=1, max_size=12)
LOG_TAIL = st.one_of(
    st.floats(1e-6, 1.0 - 1e-6).map(lambda a: math.log1p(-a)),
    st.sampled_from([-20.0, -50.0, -100.0, -600.0, -1000.0]),
)
NAMES = st.sampled_from(sorted(DISTRIBUTIONS))
EQUIVARIANT_NAMES = st.sampled_from(sorted(EQUIVARIANT_DISTRIBUTIONS))


def spread_out(risks: list[float]) -> bool:
    """No two risks so close that order statistics or their distances are undecided."""
    distances = np.diff(np.sort(risks))
    return len(risks) < 2 or bool(distances.min() > 1e-6 * max(risks))
