"""The undisturbed sweep that every cluster is compared with, trained once."""

from __future__ import annotations

import pytest

from sweeps.engines.same_records import Undisturbed


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed") / "local")
