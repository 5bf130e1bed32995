"""Labels and predictions of every row of a table of files, some hundred thousand at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.files import TableFiles
from eqrm.domains import Name, NumberedDomains
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.constants import LabelStatistics
from eqrm.evaluation.measuring.domain_columns import DomainFacts
from eqrm.evaluation.measuring.grouped_losses import GroupedLosses, grouped_losses, selected
from eqrm.evaluation.measuring.loss_columns import LossColumn, loss_columns
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.evaluation.measuring.set_metrics import DomainMetric, SetMetric
from eqrm.risks import MeasuredRisks
from eqrm.text import counted

NUMBERS = "eqrm_numbered_domains"
ROWS_AT_A_TIME = 500_000


@dataclass(frozen=True, eq=False)
class RowsOfPredictions:
    """Consecutive rows: the ``domain`` (k,) as a number, the ``label`` and the ``prediction``.

    Labels are 0 … K−1 where predictions are probabilities, (k,) of label 1 or (k, K); else both
    are numbers (k,).
    """

    domain: NDArray[np.int32]
    label: NDArray[np.float64]
    prediction: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """One predictor: its risks, and what its references are made of, as far as that is known.

    ``several`` says that it gives a probability of every class; ``labels`` are statistics by
    domain, and the domains of ``rows`` are numbered as in ``risks``. ``facts`` are what other
    columns say of the domains.
    """

    risks: MeasuredRisks
    several: bool = False
    labels: LabelStatistics | None = None
    rows: RowsOfPredictions | None = None
    facts: DomainFacts = field(default_factory=DomainFacts)
    of_sets: Callable[[Sequence[Name]], DomainMetric] | None = None

    @classmethod
    def by_metric(
        cls, name: str, metric: SetMetric, labels: Any, predictions: Any, domains: NumberedDomains
    ) -> Measured:
        """By a metric of labels and predictions (n, …); which domains count is known later."""

        def of(kept: Sequence[Name]) -> DomainMetric:
            place = {str(each): i for i, each in enumerate(kept)}
            ids = np.array([place.get(str(each), -1) for each in domains.names])[domains.ids]
            rows = ids >= 0
            numbered = NumberedDomains(ids[rows], tuple(kept))
            try:
                return DomainMetric.of(metric, labels[rows], predictions[rows], numbered)
            except DomainDataError as error:
                raise DomainDataError(f"{name}: {error}") from None

        if np.shape(predictions)[:1] != labels.shape[:1]:
            given = len(np.atleast_1d(predictions))
            raise DomainDataError(
                f"{name}: there are {counted(len(labels), 'label')} and "
                f"{counted(given, 'prediction')}. Give one per example."
            )
        unknown = np.full(len(domains.names), np.nan)
        counts = np.bincount(domains.ids, minlength=len(unknown))
        return cls(MeasuredRisks.of(domains.names, counts, unknown, unknown), of_sets=of)


@dataclass(frozen=True, eq=False)
class PredictionTable:
    """One predictor in a table of files, of which every row has been checked."""

    table: TableFiles
    domains: Sequence[str]
    column: LossColumn
    grouped: GroupedLosses

    @classmethod
    def of(cls, table: TableFiles, spec: MeasurementSpec) -> PredictionTable:
        """Check all rows and measure the risk of each domain, in one pass."""
        names = [spec.domains] if isinstance(spec.domains, str) else list(spec.domains)
        (column,) = loss_columns(table, spec)
        return cls(table, names, column, grouped_losses(table, names, [column]))

    @property
    def measured(self) -> MeasuredRisks:
        """The risk of each domain."""
        return self.grouped.measured[self.column.predictor]

    @property
    def classes(self) -> list[str] | None:
        """The names of classes that have a column each."""
        known = self.column.expected.classes
        return None if known is None else list(known)

    def rows(self, numbers: Mapping[Name, int]) -> Iterator[RowsOfPredictions]:
        """The rows of the domains that have a number."""
        keys = self._number_domains(numbers)
        label, prediction = self.column.inputs
        held = {key: self.table.domain(name) for key, name in zip(keys, self.domains, strict=True)}
        rows = f"{selected({**held, **self.column.inputs})} FROM {self.table.source}"
        same = " AND ".join(f"r.{key} = n.{key}" for key in keys)
        sql = (
            f"SELECT n.number, r.{label}, r.{prediction} FROM ({rows}) r JOIN {NUMBERS} n ON {same}"
        )
        for batch in self.table.batches(sql, ROWS_AT_A_TIME, **self.column.parameters):
            values = _as_array(batch.column(prediction))
            labels = np.asarray(batch.column(label).to_numpy(zero_copy_only=False), np.float64)
            if self.column.expected.several:
                labels = labels - 1.0  # positions in SQL are from 1
            number = batch.column("number").to_numpy(zero_copy_only=False)
            yield RowsOfPredictions(number, labels, values)

    def all_rows(self) -> RowsOfPredictions:
        """Every row, its domain numbered as in ``measured``."""
        parts = list(self.rows({name: i for i, name in enumerate(self.measured.domains)}))
        fields = ("domain", "label", "prediction")
        whole = [np.concatenate([getattr(part, name) for part in parts]) for name in fields]
        return RowsOfPredictions(*whole)

    def _number_domains(self, numbers: Mapping[Name, int]) -> list[str]:
        """Give DuckDB the numbers of domains, by what their columns hold."""
        import pyarrow

        kept = [place for place, name in enumerate(self.grouped.names) if name in numbers]
        keys = {
            f"d{j}": pyarrow.array([values[place] for place in kept])
            for j, values in enumerate(self.grouped.keys)
        }
        chosen = [numbers[self.grouped.names[place]] for place in kept]
        found = pyarrow.table({**keys, "number": pyarrow.array(chosen, pyarrow.int32())})
        self.table.connection.register(NUMBERS, found)
        return list(keys)


def _as_array(column: Any) -> NDArray[np.float64]:
    """Numbers (k,), or lists of equally many numbers (k, K)."""
    import pyarrow

    if not pyarrow.types.is_list(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    lengths = np.diff(column.offsets.to_numpy())
    if len(set(lengths.tolist())) > 1:
        raise DomainDataError(
            f"Rows have different numbers of probabilities: {lengths.min()} and {lengths.max()}. "
            "Give every row a probability of each class."
        )
    flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    return flat.reshape(len(column), -1)
