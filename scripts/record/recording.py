"""The record of what must not change by accident: written, or compared with what there is now.

    python scripts/record/recording.py [NAME ...] [--check]

Without an option, tests/record/ is written anew and git shows what changed; ``--check`` writes
nothing and fails when something differs (``make record`` and ``make record-check``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from comparing import Difference, differences
from running import ROOT, entries, made

RECORD = ROOT / "tests" / "record"
PATHS = [str(ROOT / "src"), str(ROOT), str(ROOT / "scripts" / "record")]
SHOWN = 20
PRELOADED = ["running", "eqrm.cli", "torch", "scipy.stats", "sklearn.linear_model"]
"""What most commands import, in seconds."""


def environment() -> dict[str, str]:
    """One thread, no data root, no GPU, a fixed width: the same everywhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("EQRM_", "PYTHON")) or name == "EQRM_NATIVE"
    }
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        **kept,
        **threads,
        "PYTHONPATH": os.pathsep.join(PATHS),
        "PYTHONUTF8": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "MPLBACKEND": "Agg",
        "TZ": "UTC",
    }


@dataclass(frozen=True)
class Made:
    """A file made anew: its text, or else why there is none."""

    name: str
    text: str
    problem: str
    seconds: str


def _make(name: str, folder: Path) -> None:
    """Make one file, in a process of its own; what is printed goes to its log."""
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
        (folder / f"{name}.txt").write_text(made(name), encoding="utf-8")
    (folder / f"{name}.time").write_text(f"{sum(os.times()[:4]):.1f}", encoding="utf-8")


def _made(name: str, folder: Path) -> Made:
    """One file, from a fork of a process that has imported what all of them need."""
    start = time.perf_counter()
    context: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_make, args=(name, folder))
    process.start()
    process.join()
    seconds = f"{time.perf_counter() - start:6.1f} s"
    if process.exitcode:
        said = (folder / f"{name}.log").read_text(encoding="utf-8").rstrip()
        return Made(name, "", f"{name} could not be made: {said}", seconds)
    seconds += f", {(folder / f'{name}.time').read_text()} s of processor time"
    return Made(name, (folder / f"{name}.txt").read_text(encoding="utf-8"), "", seconds)


def made_anew(names: list[str], workers: int) -> Iterator[Made]:
    """Every file, as they are finished, with a line about each."""
    wanted = environment()
    os.environ.clear()
    os.environ.update(wanted)
    sys.path[:0] = PATHS  # processes that are started have the paths of this one
    with (
        tempfile.TemporaryDirectory(prefix="eqrm-record-") as folder,
        ThreadPoolExecutor(workers) as pool,
    ):
        started = [pool.submit(_made, name, Path(folder)) for name in names]
        try:
            for ended in as_completed(started):
                one = ended.result()
                print(f"{one.name:24} {one.seconds}", flush=True)
                yield one
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def recorded(record: Path, name: str) -> str:
    """What the record has under a name; nothing if there is no such file."""
    path = record / f"{name}.txt"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def told(found: dict[str, list[Difference]]) -> str:
    """The first differences, how many there are in which file, and how they are accepted."""
    every = [each for differing in found.values() for each in differing]
    lines = [str(each) for each in every[:SHOWN]]
    if len(every) > SHOWN:
        lines.append(f"... and {len(every) - SHOWN} more")
    counts = ", ".join(f"{name} ({len(differing)})" for name, differing in found.items())
    lines.append(
        f"Lines that differ from the record: {counts}. If the change is meant, run: make record "
        f"NAMES='{' '.join(found)}'; then look at 'git diff tests/record' and commit it."
    )
    return "\n".join(lines)


def check(names: list[str], workers: int, record: Path = RECORD) -> int:
    """Compare; the exit code."""
    start = time.perf_counter()
    anew = {each.name: each for each in made_anew(names, workers)}
    problems = [each.problem for each in anew.values() if each.problem]
    found = {
        name: list(differences(f"{name}.txt", recorded(record, name), anew[name].text))
        for name in names
        if not anew[name].problem
    }
    wrong = {name: differing for name, differing in found.items() if differing}
    print(*problems, sep="\n", end="\n" if problems else "")
    if wrong:
        print(told(wrong))
    if not (problems or wrong):
        seconds = time.perf_counter() - start
        print(f"The record holds: {len(names)} files compared in {seconds:.0f} s.")
    return int(bool(problems or wrong))


def write(names: list[str], workers: int, record: Path = RECORD) -> int:
    """Write the files that differ, remove those of nothing, show the change; the exit code."""
    problems = []
    for one in made_anew(names, workers):
        if one.problem:
            problems.append(one.problem)
        elif any(differences(one.name, recorded(record, one.name), one.text)):
            (record / f"{one.name}.txt").write_text(one.text, encoding="utf-8")
    for path in set(record.glob("*.txt")) - {record / f"{name}.txt" for name in entries()}:
        path.unlink()
    for command in (["diff", "--stat"], ["status", "--short"]):
        subprocess.run(["git", "--no-pager", *command, "--", str(record)], cwd=ROOT, check=False)
    print("'git diff tests/record' shows every line that changed.", *problems, sep="\n")
    return int(bool(problems))


def main(given: list[str] | None = None) -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="files of the record, without .txt"
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args(given)
    known = list(entries())
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not in the record, which has {', '.join(known)}")
    act = check if arguments.check else write
    return act(arguments.names or known, arguments.workers)


if __name__ == "__main__":
    sys.exit(main())
