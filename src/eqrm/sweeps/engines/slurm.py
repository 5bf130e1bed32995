"""Runs as tasks of SLURM's job arrays, which call the command line.

Runs that wait are submitted together, ``sbatch --array --requeue``, and each task trains one with
``eqrm sweep run``. The folder of the sweep must be on a file system that all nodes share. SLURM
starts a preempted task, or one whose node was lost, again under the same number; the run goes on
from its checkpoint. Jobs outlive a sweep that was killed, and the next sweep watches them. Nothing
is asked of SLURM but ``sbatch``, ``squeue`` and ``scancel``; ``sacct`` needs a database that many
clusters do not have.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from eqrm.checks import POSITIVE, POSITIVE_INTEGER, Rule, check_fields, optional, ruled
from eqrm.errors import SettingError
from eqrm.files.writing import write_text
from eqrm.sweeps.engines.base import THREADS, Engine, RunOutcome
from eqrm.sweeps.execution import begin_job, ending_of_job
from eqrm.sweeps.sweep_folder import JOBS, SweepFolder

COMMANDS = ("sbatch", "squeue", "scancel")
ANSWER = 60.0
"""Seconds that a command may take to answer."""
SILENCE = 900.0
"""Seconds without an answer after which the controller is given up."""
SAVING = 120
"""Seconds before its time limit at which a job is told to save."""
GRACE = 15.0
"""Seconds that the files of a job may take to be seen from here."""
PATIENCE = 120.0
"""Seconds that jobs have to save and end when the sweep is stopped."""
TEXT = Rule("a string without line breaks", lambda v: isinstance(v, str) and v.isprintable())
TEXT_OR_COUNT = optional(
    Rule("an integer or a string", lambda v: TEXT.holds(v) or POSITIVE_INTEGER.holds(v))
)
LINES = Rule(
    "a list of strings",
    lambda v: isinstance(v, (list, tuple)) and all(isinstance(line, str) for line in v),
)


@dataclass(eq=False, kw_only=True)
class SlurmEngine(Engine):
    """Tasks of job arrays; the parameters are those of ``sbatch`` that most clusters need.

    ``workers`` limits the tasks that run at the same time, ``array_size`` those in the queue.
    ``gpus`` are per node, a number or a kind and a number (``a100:1``). ``setup`` are lines of
    shell before each run, ``options`` further options of sbatch. With ``nodes`` or ``processes``
    (per node) above 1, torchrun trains each run in several processes.
    """

    partition: str | None = ruled(None, optional(TEXT))
    account: str | None = ruled(None, optional(TEXT))
    qos: str | None = ruled(None, optional(TEXT))
    time: str | int | None = ruled(None, TEXT_OR_COUNT)
    memory: str | None = ruled(None, TEXT_OR_COUNT)
    gpus: str | int | None = ruled(None, TEXT_OR_COUNT)
    nodes: int = ruled(1, POSITIVE_INTEGER)
    processes: int = ruled(1, POSITIVE_INTEGER)
    array_size: int = ruled(1000, POSITIVE_INTEGER)
    poll_every: float = ruled(5.0, POSITIVE)
    python: str = ruled(sys.executable, TEXT)
    setup: Sequence[str] = ruled((), LINES)
    options: Sequence[str] = ruled((), LINES)
    _waiting: list[str] = field(default_factory=list, init=False)
    _tasks: dict[str, str] = field(default_factory=dict, init=False)
    _gone: dict[str, float] = field(default_factory=dict, init=False)
    _states: dict[str, str] = field(default_factory=dict, init=False)
    _known: dict[str, str] | None = field(default=None, init=False)
    _looked: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        check_fields(self)
        self._sweep = SweepFolder(Path(self.folder).resolve())
        self._jobs = self._sweep.path / JOBS

    def __enter__(self) -> SlurmEngine:
        self._queue = SlurmQueue(f"eqrm-{self._sweep.path.name}")
        return self

    @property
    def free(self) -> int:
        return self.array_size - len(self._tasks) - len(self._waiting)

    @property
    def running(self) -> list[str]:
        """The runs that have a task, or will have one at the next poll."""
        return [*self._tasks.values(), *self._waiting]

    @property
    def queued(self) -> int:
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


class SlurmQueue:
    """The jobs of this user with a name."""

    def __init__(self, name: str) -> None:
        absent = [command for command in COMMANDS if shutil.which(command) is None]
        if absent:
            raise SettingError(
                f"The engine 'slurm' calls {', '.join(COMMANDS)}, but {absent[0]!r} was not found. "
                "Start the sweep on a login node of the cluster."
            )
        self._name = name
        self._answered = time.monotonic()

    def submit(self, options: Sequence[str], script: str) -> str:
        """Queue a script; the number of the job."""
        command = ["sbatch", "--parsable", f"--job-name={self._name}", *options]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SettingError(
                f"sbatch refused the jobs of the sweep: {_words(done)} Check the settings of the "
                f"engine. The command was: {' '.join(command)}"
            )
        return done.stdout.strip().split(";")[0]

    def tasks(self) -> dict[str, str] | None:
        """The tasks of jobs that have not ended (``"12_0"``) and their states.

        None where the controller did not answer, which a busy one does not always do.
        """
        command = ["squeue", "--noheader", "--array", f"--user={os.getuid()}"]
        command += [f"--name={self._name}", "--format=%F_%K %T"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=ANSWER, check=False
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, 1, "", "it did not answer")
        if done.returncode == 0:
            self._answered = time.monotonic()
            lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
            return {line[0]: line[1] for line in lines}
        if time.monotonic() - self._answered > SILENCE:
            raise SettingError(
                f"squeue has failed for {SILENCE / 60:.0f} minutes: {_words(done)} Jobs that were "
                "submitted go on. Run the same command again when the cluster answers."
            )
        return None

    def cancel(self, tasks: Iterable[str]) -> None:
        """Have tasks stopped: SIGTERM, and SIGKILL after the time that the cluster allows."""
        subprocess.run(["scancel", *tasks], capture_output=True, check=False)


def _words(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
    return lines[-1].rstrip(".") + "."
