"""Runs as tasks of SLURM's job arrays, which call the command line.

Runs that wait are submitted together, ``sbatch --array --requeue``, and each task trains one with
``eqrm sweep run``. The folder of the sweep must be on a file system that all nodes share. SLURM
starts a preempted task, or one whose node was lost, again under the same number; the run goes on
from its checkpoint. Jobs outlive a sweep that was killed, and the next sweep watches them.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from eqrm.checks import POSITIVE, POSITIVE_INTEGER, Rule, optional
from eqrm.errors import SettingError
from eqrm.files.writing import write_text
from eqrm.sweeps.engines.base import Engine, RunOutcome
from eqrm.sweeps.engines.job import begin_job, ending_of_job
from eqrm.sweeps.engines.local import THREADS
from eqrm.sweeps.engines.slurm_queue import SlurmQueue
from eqrm.sweeps.sweep_folder import JOBS, SweepFolder

SAVING = 120
"""Seconds before its time limit at which a job is told to save."""
GRACE = 15.0
"""Seconds that the files of a job may take to be seen from here."""
PATIENCE = 120.0
"""Seconds that jobs have to save and end when the sweep is stopped."""
TEXT = Rule("a string without line breaks", lambda v: isinstance(v, str) and v.isprintable())
LINES = Rule(
    "a list of strings",
    lambda v: isinstance(v, (list, tuple)) and all(isinstance(line, str) for line in v),
)


@dataclass(eq=False)
class SlurmEngine(Engine):
    """Tasks of job arrays; the parameters are those of ``sbatch`` that most clusters need.

    ``workers`` limits the tasks that run at the same time, ``array_size`` those in the queue.
    ``gpus`` are per node, a number or a kind and a number (``a100:1``). ``setup`` are lines of
    shell before each run, ``options`` further options of sbatch. With ``nodes`` or ``processes``
    (per node) above 1, torchrun trains each run in several processes.
    """

    folder: Path
    data_root: str | Path | None = None
    _: KW_ONLY
    workers: int | None = None
    threads: int = 1
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | int | None = None
    memory: str | None = None
    gpus: str | int | None = None
    nodes: int = 1
    processes: int = 1
    array_size: int = 1000
    poll_every: float = 5.0
    python: str = sys.executable
    setup: Sequence[str] = ()
    options: Sequence[str] = ()
    _waiting: list[str] = field(default_factory=list, init=False)
    _tasks: dict[str, str] = field(default_factory=dict, init=False)
    _gone: dict[str, float] = field(default_factory=dict, init=False)
    _states: dict[str, str] = field(default_factory=dict, init=False)
    _known: dict[str, str] | None = field(default=None, init=False)
    _looked: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        _refuse_bad_settings(self)
        self._sweep = SweepFolder(Path(self.folder).resolve())
        self._jobs = self._sweep.path / JOBS

    def __enter__(self) -> SlurmEngine:
        self._queue = SlurmQueue(f"eqrm-{self._sweep.path.name}")
        return self

    @property
    def free(self) -> int:
        """How many tasks the queue may still take."""
        return self.array_size - len(self._tasks) - len(self._waiting)

    @property
    def running(self) -> list[str]:
        """The runs that have a task, or will have one at the next poll."""
        return [*self._tasks.values(), *self._waiting]

    @property
    def queued(self) -> int:
        """How many tasks have no node yet."""
        absent = [task for task in self._tasks if self._states.get(task, "PENDING") == "PENDING"]
        return len(absent) + len(self._waiting)

    def submit(self, run: str) -> None:
        """Put a run into the next array, unless a task of an earlier sweep has it."""
        if self._known is None:
            self._known = self._of_earlier_sweeps()
        if (task := self._known.pop(run, None)) is not None:
            self._tasks[task] = run
        else:
            self._waiting.append(run)

    def poll(self, seconds: float) -> list[RunOutcome]:
        """Submit what waits, and look at the queue, not more often than every few seconds."""
        self._submit_array()
        left = self._looked + self.poll_every - time.monotonic()
        if left > 0:
            time.sleep(min(left, seconds))
            return []
        tasks = self._queue.tasks()
        self._looked = now = time.monotonic()
        if tasks is None:
            return []
        self._states = tasks
        return [
            outcome
            for task in [each for each in self._tasks if each not in tasks]
            if (outcome := self._ended(task, now)) is not None
        ]

    def cancel(self) -> None:
        """Have SLURM stop the tasks, and wait until they have saved; again Ctrl-C: do not wait."""
        self._waiting.clear()
        if not self._tasks:
            return
        self._queue.cancel(self._tasks)
        deadline = time.monotonic() + PATIENCE
        with suppress(KeyboardInterrupt):
            while time.monotonic() < deadline:
                left = self._queue.tasks()
                if left is not None and not left.keys() & self._tasks.keys():
                    break
                time.sleep(1.0)
        self._tasks.clear()

    def _ended(self, task: str, now: float) -> RunOutcome | None:
        """How the run of a task that left the queue ended; None while its files may be late."""
        outcome = ending_of_job(self._sweep, self._tasks[task])
        since = self._gone.setdefault(task, now)
        if outcome.ending == "lost":
            if now - since < GRACE:
                return None
            log = self._jobs / f"{task}.log"
            outcome = RunOutcome(
                outcome.run, "lost", f"The SLURM job {task} ended without a result (see {log})."
            )
        del self._tasks[task], self._gone[task]
        return outcome

    def _submit_array(self) -> None:
        if not self._waiting:
            return
        runs = self._waiting
        for run in runs:
            begin_job(self._sweep, run)
        self._jobs.mkdir(exist_ok=True)
        job = self._queue.submit(self.sbatch_options(len(runs)), self.script(runs))
        self._waiting = []
        self._tasks |= {f"{job}_{number}": run for number, run in enumerate(runs)}
        write_text(self._jobs / f"{job}.json", json.dumps(runs) + "\n")

    def _of_earlier_sweeps(self) -> dict[str, str]:
        """Runs that tasks of this folder, submitted before, still have."""
        found: dict[str, str] = {}
        alive = self._queue.tasks() or {}
        for path in sorted(self._jobs.glob("*.json")):
            runs = json.loads(path.read_text(encoding="utf-8"))
            tasks = {f"{path.stem}_{number}": run for number, run in enumerate(runs)}
            found |= {run: task for task, run in tasks.items() if task in alive}
        return found

    def sbatch_options(self, runs: int) -> list[str]:
        """The options of sbatch for an array of so many runs."""
        at_once = "" if self.workers is None else f"%{self.workers}"
        log = str(self._jobs).replace("%", "%%")
        given = {
            "array": f"0-{runs - 1}{at_once}",
            "output": f"{log}/%A_%a.log",
            "open-mode": "append",
            "nodes": self.nodes,
            "ntasks-per-node": 1,
            "cpus-per-task": self.threads * self.processes,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "time": self.time,
            "mem": self.memory,
            "gres": None if self.gpus is None else f"gpu:{self.gpus}",
        }
        found = ["--requeue"]
        found += [f"--{name}={value}" for name, value in given.items() if value is not None]
        if self.time is not None:
            found.append(f"--signal={'' if self._several else 'B:'}TERM@{SAVING}")
        return [*found, *self.options]

    def script(self, runs: Sequence[str]) -> str:
        """What each task does: find its run, and train it."""
        command = ["-m", "eqrm.cli", "sweep", "run", str(self._sweep.path)]
        rest = ["--threads", str(self.threads)]
        if self.data_root is not None:
            rest += ["--data-root", str(Path(self.data_root).resolve())]
        python = shlex.quote(self.python)
        if self._several:
            # The script runs on the first node, where the processes meet.
            python = (
                f"srun {python} -m torch.distributed.run --nnodes={self.nodes} "
                f"--nproc-per-node={self.processes} --rdzv-backend=c10d "
                '--rdzv-id="$SLURM_JOB_ID" '
                '--rdzv-endpoint="$(hostname):$((20000 + SLURM_JOB_ID % 20000))"'
            )
        return "\n".join(
            [
                "#!/bin/bash",
                *self.setup,
                f"export {' '.join(f'{name}={self.threads}' for name in THREADS)}",
                f"runs=({' '.join(runs)})",
                f'exec {python} {shlex.join(command)} "${{runs[$SLURM_ARRAY_TASK_ID]}}" '
                f"{shlex.join(rest)}",
                "",
            ]
        )

    @property
    def _several(self) -> bool:
        return self.nodes * self.processes > 1


def _refuse_bad_settings(engine: SlurmEngine) -> None:
    """Raise one error with all the problems."""
    text, count = optional(TEXT), POSITIVE_INTEGER
    text_or_count = Rule("an integer or a string", lambda v: text.holds(v) or count.holds(v))
    rules = {
        **dict.fromkeys(("threads", "nodes", "processes", "array_size"), count),
        **dict.fromkeys(("partition", "account", "qos"), text),
        **dict.fromkeys(("time", "memory", "gpus"), text_or_count),
        **dict.fromkeys(("setup", "options"), LINES),
        "workers": optional(count),
        "poll_every": POSITIVE,
        "python": TEXT,
    }
    problems = [
        f"{name} must be {rule.words}, got {getattr(engine, name)!r}."
        for name, rule in rules.items()
        if not rule.holds(getattr(engine, name))
    ]
    if problems:
        raise SettingError(" ".join(problems))
