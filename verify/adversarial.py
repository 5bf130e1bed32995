"""Fuzzed inputs, kills and other faults at full size."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verify.registry import ROOT, Options, Result, answer_of, check, passed

from adversarial.file_kinds import KINDS
from adversarial.files_in_a_child import judged_in_children
from adversarial.fuzzing import VECTORS, judged_for, judged_vectors
from adversarial.thread_counts import BOUNDS, difference
from eqrm.distributions.kde import native


@check(
    "adversarial.risk-vectors",
    "fuzzed risk vectors: finite or refused, right dtype, monotone, the same on every code path",
)
def risk_vectors(options: Options) -> Result:
    minutes = float(os.environ.get("EQRM_FUZZ_MINUTES", "0"))
    if minutes:
        more = judged_for(minutes, options.workers)
        return passed(not more.problems, str(more), problems=more.problems[:100])
    report = judged_vectors(VECTORS, options.workers)
    return passed(
        report.vectors >= VECTORS and not report.problems,
        str(report) if native.LIBRARY else f"{report}; the C part is not built here",
        problems=report.problems[:100],
    )


FILES = 1100
"""Fifty of each kind."""


@check(
    "adversarial.files",
    "damaged and forged files: no crash, no hang over 10 s, at most 4 GiB, no wrong answer",
)
def forged_files(options: Options) -> Result:
    os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
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


KILLS = {"training": 220, "sweeps": 130, "watches": 450, "reports": 200}
"""How many processes of each kind are killed at least."""


@check(
    "adversarial.kills",
    "1,000 times kill -9: nothing lost, nothing half-written read, old outputs or whole new ones",
    waits=True,
)
def kills(options: Options) -> Result:
    def killed(area: str) -> dict[str, int]:
        told = answer_of(options, f"kills-{area}", "adversarial.kills", area, str(KILLS[area]), "1")
        found: dict[str, int] = json.loads(told)
        return found

    with ThreadPoolExecutor(options.workers) as pool:
        seen = dict(zip(KILLS, pool.map(killed, KILLS), strict=True))
    total = sum(each["kills"] for each in seen.values())
    told = "; ".join(
        f"{area} {each['kills']:,}, {each['while_writing']} of them while a file was written"
        for area, each in seen.items()
    )
    enough = all(each["kills"] >= KILLS[area] for area, each in seen.items())
    return passed(enough and total >= 1_000, f"{total:,} kills: {told}", **seen)


@check(
    "adversarial.leaks",
    "10,000 steps with constant memory, 500 evaluations without an open file left",
)
def leaks(options: Options) -> Result:
    found = json.loads(answer_of(options, "leaks", "adversarial.leaks", "10000", "500"))
    told = "; ".join(
        f"{each['done']:,} {name}: memory grown by {each['grown']:.1f} MB (bound {MEGABYTES}) of "
        f"{each['megabytes_early']:.0f}, open files {each['files_before']} before and "
        f"{each['files_after']} after, threads {each['threads_before']} and "
        f"{each['threads_after']}"
        for name, each in found.items()
    )
    holds = all(
        each["grown"] <= MEGABYTES
        and each["files_after"] <= each["files_before"]
        and each["threads_after"] <= each["threads_before"]
        for each in found.values()
    )
    return passed(holds, told, **found)


MEGABYTES = 10
"""By which memory may grow after the first quarter of the work."""
THREADS = (1, 2, 4)
REPEATED = set(BOUNDS) - {"evaluation"}
"""The same bits for the same number of threads; DuckDB adds in the order in which threads end."""


@check("adversarial.thread-counts", "the same results for 1, 2 and 4 threads, and repeated")
def thread_counts(options: Options) -> Result:
    with tempfile.TemporaryDirectory(prefix="eqrm-threads-") as temporary:
        folders = []
        for threads in (*THREADS, THREADS[-1]):
            folders.append(Path(temporary) / str(len(folders)))
            place, module = str(folders[-1]), "adversarial.thread_counts"
            answer_of(options, "thread-counts", module, place, threads=threads)
        one, *others = folders
        worst = {name: max(difference(one, each, name) for each in others) for name in BOUNDS}
        again = {name: difference(others[-2], others[-1], name) for name in BOUNDS}
    counts = ", ".join(map(str, THREADS))
    same = [name for name in BOUNDS if worst[name] == 0.0]
    rounded = [name for name in BOUNDS if worst[name] > 0.0 and math.isfinite(BOUNDS[name])]
    free = [name for name in BOUNDS if math.isinf(BOUNDS[name]) and worst[name] > 0.0]
    moved = [name for name in BOUNDS if again[name] > 0.0]
    told = [f"the same bits for {counts} threads: {', '.join(same) or 'none'}"]
    told += [f"{name} the same to {worst[name]:.0e} (bound {BOUNDS[name]:.0e})" for name in rounded]
    told += [f"{name} not the same ({worst[name]:.0e}), and not promised" for name in free]
    told += [f"repeated with {THREADS[-1]} threads, other bits: {', '.join(moved) or 'none'}"]
    holds = all(worst[name] <= BOUNDS[name] for name in BOUNDS) and not set(moved) & REPEATED
    return passed(holds, "; ".join(told), worst=worst, repeated=again)
