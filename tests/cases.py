"""Which cases of a test run when."""

from __future__ import annotations

from typing import Any

import pytest


def in_full(*values: object) -> list[Any]:
    """Values of a test's parameter that ``make verify`` adds to those of ``make test``."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
