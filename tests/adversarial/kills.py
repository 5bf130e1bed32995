"""``kill -9`` at random moments of training, sweeps, watches and reports, again and again.

What is killed is a process that was forked from one that has imported everything, so that the
kills hit the work and not the imports; it is a process of its own all the same. Real commands with
workers of their own are killed in tests/sweeps and tests/evaluation/watching.

    python -m adversarial.kills reports 300 SEED
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import typer

from eqrm import cli
from eqrm.evaluation.watching.state_file import previous_path, read_state
from eqrm.files.writing import DRAFT
from eqrm.sweeps.records import read_records
from eqrm.sweeps.status import sweep_status
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from evaluation.watching.watch_worlds import (
    days,
    forked,
    killed_after,
    killed_at,
    started,
    undisturbed,
    watch,
    written,
)
from sweeps.small_plans import HereEngine, changed, planned, records_of
from training.killed_run import CHECKPOINT_EVERY
from training.killing import Runs, killed_and_resumed, run_to_the_end

STEPS_PER_KILL = 25
MOST_STEPS = 150
"""Of one run of the trainer, which is killed again and again until it has made them."""
LONG_RUNS = {
    "steps": 40,
    "training": {"device": "cpu", "evaluate_every": 20, "checkpoint_every": 4, "log_every": 10},
}
WRITING = [(os, "replace"), (os, "fsync"), (Path, "write_text"), (Path, "chmod"), (Path, "unlink")]


@dataclass
class Seen:
    """How many processes were killed, how many of them while they wrote, and what was done."""

    kills: int = 0
    while_writing: int = 0
    finished: int = 0

    def __str__(self) -> str:
        return f"{self.kills} ({self.while_writing} while a file was written)"


def killed_somewhere(
    job: Callable[[], object], rng: random.Random, longest: float, writes: int
) -> bool:
    """Kill a process after a random time, or at a random one of its first steps of writing."""
    if rng.random() < 0.5:
        return killed_at(job, rng.randint(1, writes), WRITING)
    return killed_after(job, rng.uniform(0.0, longest))


def done_and_imported(job: Callable[[], object], folder: Path) -> None:
    """Do a job in a process of its own, and import here what it had to import for it.

    Otherwise most of the time of a process that is killed, and most of the kills, would go to
    these imports.
    """
    listed, here = folder / "imported", set(sys.modules)

    def listing() -> None:
        try:
            job()
        finally:
            new = [name for name in sys.modules if name not in here]
            listed.write_text("\n".join(new), encoding="utf-8")

    _, status = os.waitpid(forked(listing), 0)
    assert status == 0
    for name in listed.read_text(encoding="utf-8").split():
        with suppress(ImportError):  # made while the job ran, and not found by its name
            importlib.import_module(name)
    listed.unlink()
    gc.collect()
    gc.freeze()  # or every process that is forked would copy what its collector looks at


def drafts(folder: Path) -> set[Path]:
    """Files that are being written, or were when their process was killed."""
    return {path for path in folder.rglob(".*") if DRAFT.match(path.name)}


def of_training(folder: Path, kills: int, seed: int) -> Seen:
    """Runs of the trainer: checkpoints stay whole, and the end is that of a run left alone."""
    seen = Seen()
    steps = min(STEPS_PER_KILL * kills, MOST_STEPS)
    runs = Runs(["adversarial.kills"])  # which every process imports that this one starts
    run_to_the_end(runs, folder / "whole", steps, 16)
    while seen.kills < kills:
        place = folder / f"killed-{seen.kills}"
        wanted = kills - seen.kills
        found = killed_and_resumed(runs, place, steps, 16, wanted, seed + seen.kills)
        assert max(found.steps_lost) <= CHECKPOINT_EVERY
        for name in ("weights.safetensors", "metrics.jsonl"):
            assert (folder / "whole" / name).read_bytes() == (place / name).read_bytes(), name
        seen.kills += found.kills
        seen.while_writing += found.while_writing
        seen.finished += 1
    return seen


def of_sweeps(folder: Path, kills: int, seed: int) -> Seen:
    """Sweeps: no record is lost, changed or half-written, and all end as undisturbed."""
    content = changed(run=LONG_RUNS, draws=3)
    sweep, rng, seen = planned(content), random.Random(seed), Seen()

    def job(place: Path) -> Callable[[], object]:
        files = SweepFolder(place)
        return lambda: run_sweep(planned(content), files, HereEngine(files))

    # Not in this process: where there is a GPU, forks of one that has trained cannot train.
    done_and_imported(job(folder / "undisturbed"), folder)
    expected = records_of(folder / "undisturbed", sweep)
    while seen.kills < kills:
        place, longest = folder / f"killed-{seen.finished}", 0.5
        before: dict[Path, int] = {}
        left: set[Path] = set()
        while seen.kills < kills and killed_somewhere(job(place), rng, longest, 200):
            seen.kills, longest = seen.kills + 1, 1.1 * longest
            seen.while_writing += bool(drafts(place) - left)
            left = drafts(place)
            records = {path: path.stat().st_mtime_ns for path in place.glob("runs/*/record.json")}
            assert before.items() <= records.items(), "a record was lost or written again"
            before = records
            if (place / "runs").exists() and records:
                read_records(place)
                sweep_status(place)
        os.waitpid(forked(job(place)), 0)
        assert records_of(place, sweep) == expected
        seen.finished += 1
    return seen


def of_watches(folder: Path, kills: int, seed: int) -> Seen:
    """A watch: its state is the old or the new one, and ends as undisturbed."""
    state, rng, seen = started(folder), random.Random(seed), Seen()
    files: list[str] = []
    rehearsal = folder / "rehearsal"
    rehearsal.mkdir()
    file = written(rehearsal, days(60, 3), "000.csv")
    done_and_imported(lambda: undisturbed(rehearsal, [file]), rehearsal)
    while seen.kills < kills:  # the state grows, with days that get worse
        number, longest = len(files), 0.02
        files.append(written(folder, days(60 + 3 * number, 3, 0.01 * number), f"{number:03d}.csv"))
        while killed_somewhere(lambda: watch(state, "--new", files[-1]), rng, longest, 9):
            read_state(state)
            if previous_path(state).exists():
                read_state(previous_path(state))
            seen.kills, longest = seen.kills + 1, 1.3 * longest
            left = drafts(folder)
            seen.while_writing += bool(left)
            for draft in left:
                draft.unlink()
        seen.finished += 1
    assert state.read_bytes() == undisturbed(folder, files)
    return seen


def of_reports(folder: Path, kills: int, seed: int) -> Seen:
    """``eqrm evaluate --report --output`` over older files: each is the old or the new one."""
    page, table = folder / "report.html", folder / "table.md"
    data, rng, seen = folder / "rows.csv", random.Random(seed), Seen()
    command = typer.main.get_command(cli.app)
    arguments = ["evaluate", str(data), "--domain", "site", "--loss", "loss", "--format"]
    arguments += ["markdown", "--output", str(table), "--report", str(page)]

    def job() -> None:
        sys.argv = ["eqrm", *arguments]
        command.main(arguments, prog_name="eqrm")

    def use(world: int) -> None:
        numbers = np.random.default_rng(world).lognormal(size=400).round(3)
        frame = pd.DataFrame({"site": [f"s{i // 10}" for i in range(400)], "loss": numbers})
        frame.to_csv(data, index=False)

    def there() -> tuple[bytes, bytes]:
        return page.read_bytes(), table.read_bytes()

    whole = []
    for world in (0, 1):
        use(world)
        done_and_imported(job, folder)
        whole.append(there())
    assert whole[0][0] != whole[1][0]
    assert whole[0][1] != whole[1][1]
    new, longest = 0, 1.0
    use(new)
    while seen.kills < kills:
        killed = killed_somewhere(job, rng, longest, 12)
        seen.kills += killed
        left = drafts(folder)
        seen.while_writing += killed and bool(left)
        for draft in left:
            draft.unlink()
        for found, one, other in zip(there(), *whole, strict=True):
            assert found in (one, other), "a file is neither the old nor the new one"
        if not killed:
            assert there() == whole[new]
            seen.finished += 1
        if not killed or there() == whole[new]:
            new = 1 - new
            use(new)
        longest *= 1.05 if killed else 0.8  # so that some kills come too late
    return seen


AREAS: dict[str, Callable[[Path, int, int], Seen]] = {
    "training": of_training,
    "sweeps": of_sweeps,
    "watches": of_watches,
    "reports": of_reports,
}


def killed(area: str, kills: int, seed: int) -> Seen:
    """Kill at least so many processes of one kind in a folder of their own."""
    try:
        with tempfile.TemporaryDirectory(prefix="eqrm-kills-") as folder:
            return AREAS[area](Path(folder), kills, seed)
    finally:
        gc.unfreeze()  # what is frozen is never freed, of which nanobind complains at the end


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    area, kills, seed = arguments
    found: dict[str, Any] = asdict(killed(area, int(kills), int(seed)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
