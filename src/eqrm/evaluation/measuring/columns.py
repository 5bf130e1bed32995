"""What is asked of an evaluation: which columns hold what, and by which loss to judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqrm.data.tables.frames import column
from eqrm.errors import SettingError, did_you_mean
from eqrm.evaluation.measuring.metrics import Metric, metric_of

Column = Any
"""The name of a column, or the column itself (an array) when no data is given."""
Columns = Column | Mapping[str, Column] | Sequence[str]
Loss = str | Callable[[Any, Any], Any]
AGGREGATED = {"count": "n", "mean": "mean", "variance": "variance"}
"""The columns of a table per domain, and what they are called unless said otherwise."""


@dataclass(frozen=True)
class Question:
    """What is to be read: columns by name, or arrays."""

    domains: Any
    losses: Any = None
    labels: Any = None
    predictions: Any = None
    metric: Loss = "log-loss"
    clip: float = 0.0
    aggregated: bool = False
    predictor: Any = None
    columns: Mapping[str, Any] = field(default_factory=lambda: dict(AGGREGATED))
    threads: int | None = None
    memory: str = "600MB"
    progress: bool = False

    @property
    def known_metric(self) -> Metric | None:
        """The metric by name; None for given losses and for a user's function."""
        needs = self.losses is None and not self.aggregated and isinstance(self.metric, str)
        return metric_of(str(self.metric), self.clip) if needs else None

    @property
    def name_of_loss(self) -> str:
        """The metric's name, a function's name, or "loss"."""
        metric = self.known_metric
        if metric is not None:
            return metric.name
        if callable(self.metric) and self.losses is None and not self.aggregated:
            return getattr(self.metric, "__name__", "loss")
        return "loss"


def by_column(columns: Columns) -> dict[str, str]:
    """Predictors and their columns: a mapping, a list of columns, or one column.

    >>> by_column(["a", "b"]), by_column({"ERM": "p"})
    ({'a': 'a', 'b': 'b'}, {'ERM': 'p'})
    """
    if isinstance(columns, Mapping):
        return {str(name): column for name, column in columns.items()}
    names: list[Any] = [columns] if isinstance(columns, (str, int)) else list(columns)
    return {str(name): name for name in names}


def refuse_incomplete(question: Question) -> None:
    """Raise unless there are domains, and either losses or labels with predictions."""
    if question.domains is None:
        raise SettingError("Say which domain each row belongs to: domains=, or --domain COLUMN.")
    if question.aggregated:
        return
    if not (isinstance(question.metric, str) or callable(question.metric)):
        raise SettingError(
            "metric must be a name or a function of labels and predictions, but it is "
            f"{question.metric!r}."
        )
    predicts = question.labels is not None or question.predictions is not None
    if (question.losses is not None) == predicts:
        raise SettingError(
            "Give either losses (--loss COLUMN), or labels and predictions "
            "(--label COLUMN --prediction COLUMN); or, with a row per domain, aggregated=True "
            "(--aggregated)."
        )
    if predicts and (question.labels is None or question.predictions is None):
        absent = "labels (--label)" if question.labels is None else "predictions (--prediction)"
        raise SettingError(f"Labels and predictions are needed together: {absent} are missing.")


def refuse_unknown_columns(columns: Mapping[str, Any]) -> None:
    """Raise for a column that a table per domain does not have."""
    for key in columns:
        if key not in AGGREGATED:
            raise SettingError(
                f"A table per domain has no {key!r}. {did_you_mean(key, AGGREGATED)}"
            )


def several_columns(table: Any, names: Any) -> dict[str, Any] | None:
    """The columns of several predictors, by the predictor's name."""
    if names is None:
        return None
    return {name: column(table, found) for name, found in by_column(names).items()}
