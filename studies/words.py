"""Words of tables and messages: counts, times, aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


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


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text: the first left-aligned, the others right-aligned.

    >>> print(aligned([["level", "risk"], ["0.9", "1.25"]]))
    level  risk
    0.9    1.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
