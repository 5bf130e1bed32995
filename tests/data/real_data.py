"""Where the real datasets are, for tests that need them and skip without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("EQRM_DATA", "/nonexistent"))


def needs(place: str) -> pytest.MarkDecorator:
    """Skip a test where the data root does not hold this file."""
    return pytest.mark.skipif(
        not (ROOT / place).exists(), reason=f"needs {place} in the data root (EQRM_DATA)"
    )
