"""Cases of damaged and forged files in a process that may crash, hang or take too much memory.

    python -m adversarial.files_in_a_child FOLDER FIRST COUNT

prints a line of JSON before and after each case. The process is ended by the operating system after
10 s of its processor time in one case, or a minute of any time.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

SECONDS, PATIENCE = 10.0, 60.0
MEMORY = 4 << 30
MAPPED = 12 << 30
"""Address space, much of which torch and DuckDB map and do not use."""


def judge_all(folder: Path, first: int, count: int) -> None:
    """Judge cases one after the other, in this process."""
    import torch

    from adversarial.file_kinds import KINDS, sound
    from adversarial.forged_files import judged

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MAPPED, MAPPED))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind in KINDS:  # what is imported and made once does not count
        sound(kind.name, folder)
    for case in range(first, first + count):
        print(json.dumps({"begun": case}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        verdict = judged(case, folder)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({**asdict(verdict), "memory": peak}), flush=True)


def judged_in_children(folder: Path, first: int, count: int) -> tuple[Counter[str], list[str], int]:
    """Outcomes, problems and peak memory; a child that ends is followed by another."""
    outcomes: Counter[str] = Counter()
    problems: list[str] = []
    peak, last = 0, first + count
    while first < last:
        command = [sys.executable, "-W", "ignore", "-m", "adversarial.files_in_a_child"]
        command += [str(folder), str(first), str(last - first)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise RuntimeError(done.stderr[-2000:])
        for line in lines:
            if "begun" in line:
                begun = line["begun"]
                continue
            outcomes[line["outcome"]] += 1
            peak = max(peak, line["memory"])
            if line["problem"]:
                problems.append(
                    f"{line['case']} {line['kind']} {line['change']}: {line['problem']}"
                )
        if "begun" in lines[-1]:
            ends = {signal.SIGPROF: "10 s of processor time", signal.SIGALRM: "no end in a minute"}
            how = ends.get(-done.returncode, f"the process ended with {done.returncode}")
            problems.append(f"{begun}: {how}")
            outcomes["crashed or hung"] += 1
        first = begun + 1
    if peak > MEMORY:
        problems.append(f"{peak / (1 << 30):.1f} GiB of memory")
    return outcomes, problems, peak


if __name__ == "__main__":
    judge_all(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
