"""From a table to the inputs of models: a feature matrix, numeric targets, numbered domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eqrm.checks import Problems
from eqrm.data.tables.columns import Column
from eqrm.data.tables.encoded_columns import Matrix
from eqrm.data.tables.encoder import TableEncoder
from eqrm.data.tables.reading import read_columns
from eqrm.data.tables.table import Table
from eqrm.data.tables.task import AUTO, Task
from eqrm.domains import DomainKey

if TYPE_CHECKING:
    from eqrm.data.domain_data import DomainData


@dataclass(frozen=True)
class TablePreprocessor:
    """Everything that a model learns from its table besides its parameters; saved with the model.

    Fit it on the domains that the model is trained on, and on no others: means, scales and
    categories of test domains would leak into training. ``encoder`` turns feature columns into a
    matrix, ``task`` turns targets into class numbers and scores into predictions.

    >>> table = Table({"age": [31, 57, 44]}, ["ill", "well", "ill"], ["Rome", "Oslo", "Bonn"])
    >>> preprocessor = TablePreprocessor.fit(table.in_domains(["Oslo", "Rome"]))
    >>> data = preprocessor.encode(table)
    >>> data.x, data.y, data.names
    (tensor([[-1.], [ 1.], [ 0.]]), tensor([0, 1, 0]), ('Bonn', 'Oslo', 'Rome'))
    """

    encoder: TableEncoder
    task: Task
    target_name: str
    key: DomainKey

    @property
    def domain_name(self) -> str:
        """What messages call the domains."""
        return self.key.label

    @classmethod
    def fit(cls, table: Table, task: str = AUTO, **options: Any) -> TablePreprocessor:
        """Learn from a table of training domains; ``task`` as for :meth:`Task.of`.

        ``options`` are those of :meth:`TableEncoder.fit`. All problems are one error.
        """
        problems, ids = Problems(), table.numbered_domains.ids
        with problems.noted():
            encoder = TableEncoder.fit(
                table.columns,
                domains=ids,
                asked=table.asked,
                date_forms=table.date_forms,
                **options,
            )
        with problems.noted():
            kind = Task.of(table.target, task)
        problems.refuse("The table", alone=True)
        return cls(encoder, kind, table.target_name, table.domain_key)

    def matrix(self, frame: Any, unseen: str = "warn") -> Matrix:
        """The features of a frame of any kind with (at least) the columns of training."""
        return self.encoder.transform(self.read(frame), unseen)

    def read(
        self, frame: Any, also: Sequence[str] = (), needed: Sequence[str] = ()
    ) -> dict[str, Column]:
        """The columns of training from a file or frame; ``also`` others as text, where there."""
        encoder = self.encoder
        missing, forms = encoder.missing_values, encoder.forms()
        return read_columns(frame, encoder.kinds(), also, missing, needed, forms)

    def encode(self, table: Table, unseen: str = "warn") -> DomainData:
        """A table with the same columns as a dataset: x (n, features) float32, y (n,).

        y is the number of the class, or a float32 where the task is regression. A class that
        training did not have is refused; ``unseen`` as for :meth:`TableEncoder.transform`.
        """
        from eqrm.data.domain_data import DomainData  # torch, which reading a table needs not

        return DomainData.from_arrays(
            self.encoder.transform(table.columns, unseen),
            self.task.labels(table.target),
            table.domains,
            target_names=self.task.classes,
            notes=self.encoder.notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; :meth:`from_dict` reads them."""
        groups, members = list(self.key.groups), list(self.key.members)
        return {
            "target": self.target_name,
            "domain": groups[0] if len(groups) == 1 else groups,
            **({"within": members} if members else {}),
            "task": self.task.to_dict(),
            "encoder": self.encoder.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TablePreprocessor:
        """The preprocessor that :meth:`to_dict` described."""
        return cls(
            TableEncoder.from_dict(content["encoder"]),
            Task.from_dict(content["task"]),
            str(content["target"]),
            DomainKey.of(content["domain"], content.get("within")),
        )
