"""How domains were split in time, in words."""

from __future__ import annotations

from eqrm.data.splits import TimeSplit
from eqrm.text import listed


def period(ends: tuple[str, str]) -> str:
    """From when to when."""
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def left_out(split: TimeSplit) -> str:
    """The domains that belong to neither part, if there are any."""
    if not split.left_out:
        return ""
    have = "1 domain has" if len(split.left_out) == 1 else f"{len(split.left_out):,} domains have"
    return (
        f" {have} rows both before and after the cut and so took no part in training or "
        f"evaluation: {listed(split.left_out)}."
    )


def about_the_future(split: TimeSplit | None) -> str:
    """What a certificate does not cover where domains are ordered in time."""
    if split is None:
        return ""
    return (
        " This assumes that future domains are drawn like the evaluated ones, which an evaluation "
        "on later domains cannot prove: a trend, or a season that does not occur from "
        f"{' to '.join(split.tested)}, is not covered. Check the certificate as new "
        "domains arrive."
    )
