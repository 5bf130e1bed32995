"""``eqrm table`` on 10,000 finished runs, beside reading the same files with the standard library.

    python benchmarks/sweep_tables.py [--quick]

A sweep's folder is written (not timed): 5 objectives, 4 held-out domains, 4 trials and 125 draws,
each run with 10 checkpoints of risks and accuracies on all domains. Then, in turns:

- **table**: records read with their checksums, all selection rules, text;
- **json**: ``json.loads`` of the same files, the least that any tool must do.

The whole command is also run once in a process of its own, imports included: at most 10 s. All
times are processor time, which other programs on the same cores change little.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tables import aligned, begun
from timing import timed

from eqrm.sweeps.records import Checkpoint, RunRecord, record_path, sweep_records, write_record
from eqrm.sweeps.tables.formats import to_text
from eqrm.sweeps.tables.tabulating import sweep_tables

DOMAINS = ("a", "b", "c", "d")
OBJECTIVES = ("erm", "irm", "vrex", "eqrm", "coral")
TRIALS, STEPS, ROUNDS, LONGEST = 4, 10, 3, 10.0


def made_records(draws: int) -> Iterator[RunRecord]:
    """Records of a DomainBed-like sweep, with numbers that differ from run to run."""
    number = 0
    for objective in OBJECTIVES:
        for held_out in DOMAINS:
            for trial in range(TRIALS):
                for draw in range(draws):
                    yield RunRecord(
                        run=f"{number:016x}",
                        dataset="made",
                        objective=objective,
                        held_out=(held_out,),
                        draw=draw,
                        trial=trial,
                        settings={"training.learning_rate": 1e-3 / (1 + draw)},
                        checkpoints=tuple(_checkpoints(number, held_out)),
                    )
                    number += 1


def _checkpoints(number: int, held_out: str) -> Iterator[Checkpoint]:
    for step in range(STEPS):
        value = (number * 7919 + step * 104729) % 10007 / 10007.0
        risks = {domain: value / (1 + place) for place, domain in enumerate(DOMAINS)}
        seen = {domain: risk for domain, risk in risks.items() if domain != held_out}
        splits = {"train": seen, "validation": risks, "test": {held_out: risks[held_out]}}
        accuracies = {s: {d: 1.0 - r for d, r in found.items()} for s, found in splits.items()}
        yield Checkpoint(300 * step, splits, accuracies)


def command_seconds(folder: Path) -> float:
    """Processor time of the whole command in a process of its own, imports included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "eqrm.cli", "table", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str]) -> int:
    """Measure; 1 if the command takes longer than it may."""
    quick = begun(arguments, __doc__, "1,000 runs instead of 10,000")
    with tempfile.TemporaryDirectory() as temporary:
        folder, files = Path(temporary), []
        for record in made_records(draws=12 if quick else 125):
            files.append(record_path(folder, record.run))
            files[-1].parent.mkdir(parents=True)
            write_record(folder, record)
        actions: dict[str, Callable[[], object]] = {
            "table": lambda: to_text(sweep_tables(sweep_records(folder))),
            "json": lambda: [json.loads(file.read_bytes()) for file in files],
        }
        spent: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(ROUNDS):
            for name, action in actions.items():
                spent[name].append(timed(action)[2])
        seconds = command_seconds(folder)
    timings = {name: statistics.median(each) for name, each in spent.items()}
    ratio = timings["table"] / timings["json"]
    rows = [[name, f"{timing:.2f}"] for name, timing in timings.items()]
    print(aligned([f"{len(files):,} runs", "processor s"], rows))
    passed = seconds <= LONGEST
    print(
        f"Reading and tabulating take {ratio:.1f} times as long as json.loads alone; the whole "
        f"command {seconds:.1f} s of processor time (at most {LONGEST:g}): "
        f"{'pass' if passed else 'FAIL'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
