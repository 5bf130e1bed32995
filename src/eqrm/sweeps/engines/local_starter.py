"""A process that imports what workers need once, and forks into as many as the engine asks for.

Each message of the engine brings the input and the output of one more worker. A worker says its
process first; after its end, its exit code is the last line of its output. This process ends with
the engine, killed or not, and never computes anything, so that forks of it are fresh processes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import warnings
from contextlib import suppress

from eqrm.sweeps.engines.local_worker import work

_ENDED = {signal.SIGCHLD}


def fork_workers() -> None:
    """Fork a worker per message until the engine is gone; return in workers at their end."""
    number, folder, threads, *root = sys.argv[1:]
    outputs: dict[int, int] = {}  # by process
    signal.signal(signal.SIGCHLD, lambda *_: _tell_ends(outputs))
    gc.freeze()  # what workers share is not visited in each of them
    with socket.socket(fileno=int(number)) as engine:
        while True:
            message, given, _, _ = socket.recv_fds(engine, 1, 2)
            if not message:
                return
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDED)  # until the process is noted
            process = _fork()
            if process == 0:
                break
            os.close(given[0])
            outputs[process] = given[1]
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDED)
    for place, handle in enumerate(given):
        os.dup2(handle, place)
    for handle in (*given, *outputs.values()):
        os.close(handle)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDED)
    os.setsid()
    with suppress(BrokenPipeError):  # the engine is gone, and the input has ended
        os.write(1, f"{json.dumps({'process': os.getpid()})}\n".encode())
    work(folder, int(threads), root[0] if root else None)


def _fork() -> int:
    with warnings.catch_warnings():
        # Of threads: those of OpenBLAS, which ends them before a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _tell_ends(outputs: dict[int, int]) -> None:
    """Write the exit codes of workers that ended behind what they wrote, and close their output."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            return
        output = outputs.pop(process)
        with suppress(BrokenPipeError):  # the engine is gone
            code = os.waitstatus_to_exitcode(status)
            os.write(output, f"\n{json.dumps({'code': code})}\n".encode())
        os.close(output)


if __name__ == "__main__":
    fork_workers()
