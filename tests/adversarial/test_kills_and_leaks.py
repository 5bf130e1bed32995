"""A sample of the kills, of what is left open, and of the promises that ``make verify`` checks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from adversarial.kills import killed
from adversarial.leaks import after_evaluations

posix = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")


@pytest.mark.skipif(sys.platform == "win32", reason="needs processes that fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_report_that_is_killed_is_the_old_or_the_new_one() -> None:
    assert killed("reports", 2, seed=0).kills == 2


@posix
@pytest.mark.usefixtures("own_database")
def test_evaluations_leave_no_file_open() -> None:
    left = after_evaluations(4)
    assert left.files_after <= left.files_before
    assert left.threads_after <= left.threads_before
