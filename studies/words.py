"""Words of tables and messages: counts and times."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """A count with its noun.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time, rounded to what matters.

    >>> duration(40), duration(200), duration(4 * 86400)
    ('40 seconds', '3 minutes', '4 days')
    """
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            return counted(round(seconds / size), unit)
    return counted(max(1, round(seconds)), "second")
