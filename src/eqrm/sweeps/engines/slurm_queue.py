"""SLURM's own commands: ``sbatch``, ``squeue`` and ``scancel``.

Nothing else is asked of SLURM; ``sacct`` needs a database that many clusters do not have.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence

from eqrm.errors import SettingError

COMMANDS = ("sbatch", "squeue", "scancel")
ANSWER = 60.0
"""Seconds that a command may take to answer."""
SILENCE = 900.0
"""Seconds without an answer after which the controller is given up."""


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
