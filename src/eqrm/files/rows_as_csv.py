"""Rows of the user's tables, given back in a CSV file that a spreadsheet may open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqrm.text import counted, csv_cell


class GuardedCells:
    """Cells as every CSV file of this package holds them, and how many that changed.

    A Parquet file is not opened by spreadsheets, and keeps all cells as they are.
    """

    def __init__(self) -> None:
        self.changed = 0

    def values(self, cells: Sequence[Any]) -> list[Any]:
        """The cells of a column, or of a header; most columns repeat few texts."""
        written: dict[Any, Any] = {cell: csv_cell(cell) for cell in set(cells)}
        odd = {cell for cell, text in written.items() if isinstance(cell, str) and text != cell}
        self.changed += sum(cell in odd for cell in cells) if odd else 0
        return [written[cell] for cell in cells]

    def batch(self, batch: Any, names: list[str]) -> Any:
        """An Arrow batch, with ``names`` for its columns."""
        import pyarrow
        from pyarrow import types

        columns = []
        for column in batch.columns:
            if types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if types.is_string(column.type) or types.is_large_string(column.type):
                column = pyarrow.array(self.values(column.to_pylist()), column.type)
            columns.append(column)
        return pyarrow.RecordBatch.from_arrays(columns, names=names)

    def sentence(self) -> str:
        """What was changed, and what to do; empty if nothing was."""
        if not self.changed:
            return ""
        were = "was" if self.changed == 1 else "were"
        return (
            f" {counted(self.changed, 'cell')} with control characters or the beginning of a "
            f"formula {were} made harmless for spreadsheets and terminals; a .parquet file keeps "
            "all cells as they are."
        )
