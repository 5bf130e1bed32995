"""Locks that the operating system ends with the process that holds them, however that ends."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CAN_LOCK = fcntl is not None


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder without waiting; False where another process has it.

    The lock ends when the handle is closed, so it is never stale. Where the operating system or
    the file system knows no locks (Windows, some network file systems), nothing is kept out and
    the answer is True.
    """
    if not CAN_LOCK:
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True
