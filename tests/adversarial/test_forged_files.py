"""Damaged and forged files are refused, or give finite numbers; all of them in make verify."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversarial.file_kinds import KINDS, TRAINED
from adversarial.forged_files import judged

QUICK = [i for i, kind in enumerate(KINDS) if kind.name not in TRAINED]
"""The others are in make verify."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("first", QUICK, ids=[KINDS[i].name for i in QUICK])
def test_no_file_raises_anything_but_our_errors_or_gives_a_wrong_answer(
    first: int, folder: Path
) -> None:
    verdicts = [judged(case, folder) for case in range(first, 4 * len(KINDS), len(KINDS))]
    assert not [verdict for verdict in verdicts if verdict.problem]
    assert "refused" in {verdict.outcome for verdict in verdicts}
