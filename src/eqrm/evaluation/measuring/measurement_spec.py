"""What is to be measured: which columns or arrays hold what, and by which loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqrm.checks import one_of, refuse_unknown
from eqrm.data.seen_domains import SEEN
from eqrm.data.tables.frames import column, frame_columns, in_memory
from eqrm.domains import DomainKey, joined_columns
from eqrm.errors import Setting, SettingError
from eqrm.evaluation.measuring.metrics import METRICS, Metric, metric_of, name_of_function
from eqrm.evaluation.measuring.requirement import Requirement
from eqrm.evaluation.measuring.set_metrics import SET_METRICS, SetMetric
from eqrm.risks import MeasuredRisks
from eqrm.text import listed

Column = Any
"""The name of a column, or the column itself (an array) when no data is given."""
Columns = Column | Mapping[str, Column] | Sequence[str]
Loss = str | Requirement | Callable[[Any, Any], Any]
AGGREGATED = {"count": "n", "mean": "mean", "variance": "variance"}
"""The columns of a table per domain, and their default names."""
MOST_BY_DEFAULT, MOST_ROWS = 2_000_000, 20_000_000
"""Predictions that are read into memory for references: unasked, and asked for."""


@dataclass(frozen=True)
class MeasurementSpec:
    """Which columns (by name) or arrays to measure, with which loss, and how to read files."""

    domains: Any
    losses: Any = None
    target: Any = None
    predictions: Any = None
    metric: Loss = "log-loss"
    clip: float = 0.0
    aggregated: bool = False
    model: Any = None
    columns: Mapping[str, Any] = field(default_factory=lambda: dict(AGGREGATED))
    threads: int | None = None
    memory: str = "600MB"
    progress: bool = False
    references: bool | None = False
    """None is yes, unless that takes long."""
    part: bool = False
    """Whether the rows are a part of all, to be merged with other parts."""
    nesting: DomainKey | None = None
    """Which columns name groups and which members, where the domains are nested."""
    seen: Any = None
    """Whether training has seen the domain of each row."""
    order: Any = None
    """The time of each row."""
    scale: Any = None
    """The unit of each row in which intervals are widened."""

    @property
    def with_references(self) -> bool:
        """Whether references are wanted."""
        return self.references is not False

    @property
    def requirement(self) -> Requirement | None:
        """What decisions must achieve, where that is measured and not a loss."""
        return Requirement.among(self.metric) if self.takes_predictions else None

    @property
    def keeps_rows(self) -> bool:
        """Whether labels and predictions are kept beside risks."""
        return self.with_references or self.requirement is not None

    @property
    def most_rows(self) -> int:
        """How many predictions are read into memory."""
        if self.requirement is not None:
            return MOST_ROWS
        if self.part:
            return 0
        return MOST_ROWS if self.references else MOST_BY_DEFAULT

    @property
    def takes_predictions(self) -> bool:
        """Whether losses are computed from labels and predictions."""
        return self.losses is None and not self.aggregated

    @property
    def set_metric(self) -> SetMetric | None:
        """The metric that is not a mean of losses, if it is one."""
        by_name = self.takes_predictions and isinstance(self.metric, str)
        return SET_METRICS.get(str(self.metric)) if by_name else None

    @property
    def known_metric(self) -> Metric | None:
        """The loss by name; None for given losses, a user's function, and other metrics."""
        if self.requirement is not None:
            return metric_of("squared" if self.requirement.numbers else "brier")
        by_name = self.takes_predictions and isinstance(self.metric, str)
        if not by_name or self.set_metric is not None:
            return None
        return metric_of(str(self.metric), self.clip)

    @property
    def name_of_loss(self) -> str:
        """The metric's name, a function's name, or "loss"."""
        if self.requirement is not None:
            return self.requirement.text
        if self.set_metric is not None:
            return f"1 − {self.set_metric.name}"
        metric = self.known_metric
        if metric is not None:
            return metric.name
        return name_of_function(self.metric) if self.takes_predictions else "loss"

    def refuse_incomplete(self, columns: Collection[Any] = ()) -> None:
        """Raise unless there are domains, and either losses or labels with predictions.

        ``columns`` are those of the table, where there is one.
        """
        if self.domains is None:
            raise SettingError(f"Specify the domain of each row: {Setting('domains', 'COLUMN')}.")
        refuse_unknown(self.columns, AGGREGATED, "A table per domain", "column")
        if self.aggregated:
            return
        known = self.requirement is not None
        if not (known or isinstance(self.metric, str) or callable(self.metric)):
            raise SettingError(
                "metric must be a name or a function of labels and predictions, got "
                f"{self.metric!r}."
            )
        if isinstance(self.metric, str) and not known:
            one_of(self.metric.partition(":")[0], (*METRICS, *SET_METRICS), "metric")
        predicts = self.target is not None or self.predictions is not None
        if (self.losses is not None) == predicts:
            raise SettingError(
                f"Give either losses ({Setting('losses', 'COLUMN')}), or target and predictions "
                f"({Setting('target', 'COLUMN')} and {Setting('predictions', 'COLUMN')}), or a "
                f"table with one row per domain and {Setting('aggregated', True)}."
            )
        if predicts and (self.target is None or self.predictions is None):
            absent = Setting("target" if self.target is None else "predictions")
            raise SettingError(
                f"Target and predictions are needed together: {absent} is missing."
                f"{class_columns_in_words(columns)}"
            )

    def seen_among(self, columns: Collection[Any]) -> Any:
        """The column that says which domains were seen: as named, or ``seen`` where there is one.

        A column of this name that the specification uses for something else does not count.
        """
        if self.seen is not None or SEEN not in columns:
            return self.seen
        used: set[Any] = set(self.columns.values()) if self.aggregated else set()
        for given in (self.domains, self.losses, self.target, self.predictions, self.model):
            for name in by_column(given).values() if given is not None else ():
                used |= {name, str(name).partition("=")[2]}
        return None if SEEN in used else SEEN

    def of_table(self, table: Any) -> MeasurementSpec:
        """The same with the columns of a table in memory in place of their names."""

        def held(name: Any) -> Any:
            return None if name is None else column(table, name)

        seen = held(self.seen_among(frame_columns(table)))
        held_domains, order, scale = map(held, (self.domains, self.order, self.scale))
        found = replace(self, domains=held_domains, seen=seen, order=order, scale=scale)
        if self.aggregated:
            columns = {key: held(name) for key, name in self.columns.items()}
            return replace(found, columns=columns, model=held(self.model))

        def ends(name: Any) -> Any:
            both = ends_of_intervals(name, frame_columns(table))
            return np.column_stack([*map(held, both)]) if both else held(name)

        losses, predictions = (
            None if given is None else {name: ends(c) for name, c in by_column(given).items()}
            for given in (self.losses, self.predictions)
        )
        return replace(found, losses=losses, target=held(self.target), predictions=predictions)


def class_columns_in_words(columns: Collection[Any]) -> str:
    """A sentence that begins with a blank about columns of probabilities, where there are some."""
    found = [name for name in columns if str(name).startswith("p_")]
    if len(found) < 2:
        return ""
    return (
        f" The columns {listed(found)} look like probabilities of classes, as 'eqrm predict' "
        f"writes them: use {Setting('predictions', 'p_{class}')}."
    )


def ends_of_intervals(name: Any, columns: Collection[Any]) -> tuple[str, str] | None:
    """The columns that ``lower:upper`` names, where no column has this name."""
    if not isinstance(name, str) or name in columns:
        return None
    found = [
        (name[:at], name[at + 1 :])
        for at, letter in enumerate(name)
        if letter == ":" and name[:at] in columns and name[at + 1 :] in columns
    ]
    return found[0] if len(found) == 1 else None


def nested_domains(data: Any, domains: Any, within: Any) -> tuple[Any, DomainKey | None]:
    """The domains that columns or arrays of groups, and of members within them, make together."""
    named = data is not None and not isinstance(domains, int)
    if within is None:
        if named and isinstance(domains, (list, tuple)):
            DomainKey.of(domains)  # no column twice
        return domains, None
    if domains is None:
        raise SettingError(
            f"{Setting('within')} names members inside groups. Name the groups too: "
            f"{Setting('domains', 'COLUMN')}."
        )
    if isinstance(data, MeasuredRisks):
        raise SettingError("within= needs a table or arrays, not risks that are measured already.")
    if not named:
        return joined_columns([in_memory(domains), in_memory(within)]), DomainKey.UNNAMED
    key = DomainKey.of(domains, within)
    return list(key.columns), key


def by_column(columns: Columns) -> dict[str, Any]:
    """Models and their columns: a mapping, a list of columns, or one column."""
    if isinstance(columns, Mapping):
        return {str(name): column for name, column in columns.items()}
    names: list[Any] = [columns] if isinstance(columns, (str, int)) else list(columns)
    return {str(name): name for name in names}
