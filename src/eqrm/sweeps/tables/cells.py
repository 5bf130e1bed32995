"""The tables of a sweep as plain data: cells, rows, what was selected and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eqrm.evaluation.rounding import rounded_by_error
from eqrm.sweeps.selection import RISK

AVERAGES, QUANTILES = "averages", "quantiles"
POOLED, OVER_DOMAINS = "pooled", "over-domains"
"""Forms of a metric: of all examples together, and its mean over domains with intervals."""
SWEEP, PAPER = "sweep", "paper"
ERROR_NOTE = "Mean ± standard error over trials (s/√n, divisor n, as DomainBed)."
"""What stands behind ±."""


@dataclass(frozen=True)
class SweepCell:
    """A mean over trials with its standard error.

    ``value`` is None where no trial has one, and ``error`` with fewer than two trials.
    ``complete`` is False where runs are missing or could not be judged. ``percent`` numbers are
    shown times 100 with one decimal, others with the digits that the error supports; ``printed``
    is the text of a published number.
    """

    value: float | None
    error: float | None = None
    trials: int = 0
    complete: bool = True
    percent: bool = False
    printed: str | None = None

    @property
    def text(self) -> str:
        """The cell as it is shown; – where there is no value, † where it is incomplete."""
        mark = "" if self.complete else "†"
        if self.printed is not None:
            return self.printed
        if self.value is None:
            return f"–{mark}"
        numbers = [self.value] if self.error is None else [self.value, self.error]
        if self.percent:
            return " ± ".join(f"{100.0 * number:.1f}" for number in numbers) + mark
        return " ± ".join(rounded_by_error(self.error, self.value, *numbers[1:])) + mark


@dataclass(frozen=True)
class SweepRow:
    """The cells of an objective; ``source`` is "sweep" or "paper"."""

    objective: str
    cells: tuple[SweepCell, ...]
    source: str = SWEEP

    @property
    def label(self) -> str:
        """The objective, and where its numbers come from unless they are the sweep's."""
        return self.objective if self.source == SWEEP else f"{self.objective} ({self.source})"


@dataclass(frozen=True)
class SweepTable:
    """A table of one selection rule.

    ``content`` is "accuracy", "risk" or another metric (a column per set of held-out domains, or
    in the ``form`` POOLED or OVER_DOMAINS), "quantiles" (of the risk over held-out domains) or
    "averages" (a column per dataset, for which ``dataset`` is empty).
    """

    content: str
    dataset: str
    rule: str
    rule_title: str
    columns: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    form: str = ""

    @property
    def kind(self) -> str:
        """Content and form, as files name them."""
        return f"{self.content}-{self.form}" if self.form else self.content

    @property
    def title(self) -> str:
        measured = RISK if self.content == RISK else f"{self.content} (%)"
        if self.content == AVERAGES:
            shown = "Average accuracy (%) over held-out domains, by dataset"
        elif self.content == QUANTILES:
            shown = f"{self.dataset}: quantiles of the risk over held-out domains"
        elif self.form == POOLED:
            shown = f"{self.dataset}: {measured} of all examples of held-out domains"
        elif self.form == OVER_DOMAINS:
            shown = (
                f"{self.dataset}: {measured}, mean over the held-out domains that have it, "
                "with its confidence interval for new domains"
            )
        else:
            shown = f"{self.dataset}: {measured} on held-out domains"
        return f"{shown}. Selection: {self.rule_title}"


@dataclass(frozen=True)
class SelectedRun:
    """What a rule chose for one objective, set of held-out domains and trial, and why.

    ``score`` is what the rule maximises; ``value`` is what is reported; ``settings`` are the
    values of what was searched.
    """

    dataset: str
    rule: str
    objective: str
    held_out: str
    trial: int
    draw: int
    step: int
    score: float
    value: float | None
    run: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepTables:
    """All tables of a sweep; ``missing`` runs were expected and not recorded, ``unjudged`` ones
    could not be judged by a rule."""

    tables: tuple[SweepTable, ...]
    selected: tuple[SelectedRun, ...]
    missing: tuple[str, ...]
    unjudged: tuple[str, ...]
    runs: int

    @property
    def gaps(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Runs that the tables lack: a kind, what it is called, and a line each."""
        unjudged = "Runs that could not be judged or reported"
        every = ("missing", "Missing runs", self.missing), ("unjudged", unjudged, self.unjudged)
        return [each for each in every if each[2]]
