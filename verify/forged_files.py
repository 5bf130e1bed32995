"""Damaged and forged files, each read in a child process."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verify.registry import Options, Result, check, passed

from adversarial.file_kinds import KINDS
from adversarial.files_in_a_child import judged_in_children

FILES = 1100
"""Fifty of each kind."""


@check(
    "adversarial.files",
    "damaged and forged files: no crash, no hang over 10 s, at most 4 GiB, no wrong answer",
)
def forged_files(options: Options) -> Result:
    paths = [str(Path(__file__).parents[1] / name) for name in ("src", "tests")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    size = -(-FILES // options.workers)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        parts = list(
            pool.map(
                lambda part: judged_in_children(Path(folder) / str(part), part * size, size),
                range(options.workers),
            )
        )
    outcomes = sum((part[0] for part in parts), Counter[str]())
    problems = [problem for part in parts for problem in part[1]]
    peak = max(part[2] for part in parts)
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    number = sum(outcomes.values())
    return passed(
        number >= FILES and not problems,
        f"{number:,} files of {len(KINDS)} kinds: {told}; {len(problems)} problems; "
        f"at most {peak / (1 << 30):.1f} GiB",
        problems=problems[:100],
    )
