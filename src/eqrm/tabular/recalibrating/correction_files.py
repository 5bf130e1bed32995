"""A correction as a JSON file, and predictions in files that it is applied to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from eqrm._version import __version__
from eqrm.checks import is_number
from eqrm.data.seen_domains import SEEN, SeenDomains
from eqrm.data.tables.files import TableFiles, opened
from eqrm.domains import joined_columns
from eqrm.errors import DataFileError, SettingError
from eqrm.estimators.tasks import checked_predictions
from eqrm.evaluation.measuring.domain_columns import refuse_untrue, truth_in_sql
from eqrm.evaluation.measuring.grouped_losses import column_array
from eqrm.evaluation.measuring.loss_columns import as_double
from eqrm.files.checked_json import read_json
from eqrm.files.writing import GuardedCells, whole_file, write_text
from eqrm.level import Level
from eqrm.linear.scored_rows import Correction, logits_of
from eqrm.tabular.predictions import check_output
from eqrm.text import counted, listed, shortened

FORMAT = "eqrm correction 1"
ROWS_AT_A_TIME = 200_000


@dataclass(frozen=True)
class SavedCorrection:
    """A correction with all that is needed to apply it.

    ``prediction`` is the column it was fitted to, or ``p_{class}`` for a column per class;
    ``classes`` are the names of those, and None for one probability, a list, or numbers.
    ``domain_columns`` name a domain; ``seen`` are those that the correction was fitted on, and the
    predictor before it where that is known.
    """

    correction: Correction
    metric: str
    prediction: str
    clip: float
    classes: list[str] | None
    level: Level
    domains: int
    domain_columns: tuple[str, ...]
    seen: SeenDomains

    def __call__(self, predictions: NDArray[np.float64], first_row: int = 1) -> Any:
        """Corrected predictions, of the shape given: probabilities (n,) or (n, K), or numbers."""
        shift = self.correction.shift
        if self.metric == "squared":
            return self.correction(checked_predictions(predictions, 0, first_row))
        count = 2 if isinstance(shift, float) else len(shift)
        scores = self.correction(
            logits_of(checked_predictions(predictions, count, first_row), self.clip)
        )
        if scores.ndim == 2:
            return softmax(scores, axis=1)
        if predictions.ndim == 2 and predictions.shape[1] == 2:
            return np.column_stack([expit(-scores), expit(scores)])
        return expit(scores)

    def write(self, path: Path) -> None:
        """As JSON."""
        content = {
            "format": FORMAT,
            "version": __version__,
            "metric": self.metric,
            "prediction": self.prediction,
            "classes": self.classes,
            "clip": self.clip,
            "level": str(self.level),
            "fitted_domains": self.domains,
            "domain_columns": list(self.domain_columns),
            "seen": self.seen.to_list(),
            **self.correction.to_dict(),
        }
        write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> SavedCorrection:
        """From a file that :meth:`write` wrote; all that is wrong with it is said at once."""
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataFileError(f"{path} is not a correction that 'eqrm recalibrate' saved.")
        problems = _problems(content)
        if problems:
            raise DataFileError(f"{path} is damaged: {'; '.join(problems)}. Fit it again.")
        return cls(
            Correction.from_dict(content),
            content["metric"],
            content["prediction"],
            float(content["clip"]),
            content.get("classes"),
            Level.parse(content["level"]),
            int(content["fitted_domains"]),
            tuple(content["domain_columns"]),
            SeenDomains(frozenset(content["seen"])),
        )


def _problems(content: dict[str, Any]) -> list[str]:
    shift, classes = content.get("shift"), content.get("classes")
    several = isinstance(shift, list) and len(shift) > 2 and all(map(is_number, shift))
    named = _is_list_of_text(classes)
    clip = content.get("clip")
    good = {
        "metric": content.get("metric") in ("log-loss", "squared"),
        "prediction": isinstance(content.get("prediction"), str),
        "scale": is_number(content.get("scale")),
        "shift": several or is_number(shift),
        "clip": is_number(clip) and 0.0 < clip < 0.5,  # type: ignore[operator]
        "classes": classes is None or (named and len(classes) == (len(shift) if several else 2)),  # type: ignore[arg-type]
        "level": isinstance(content.get("level"), str),
        "fitted_domains": is_number(content.get("fitted_domains")),
        "domain_columns": _is_list_of_text(content.get("domain_columns")),
        "seen": _is_seen(content.get("seen")),
    }
    wrong = [name for name, right in good.items() if not right]
    return [f"{name} is {shortened(repr(content.get(name)))}" for name in wrong]


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_seen(value: object) -> bool:
    try:
        return SeenDomains.from_list(value) is not None
    except ValueError:
        return False


def apply_to_files(
    data: Any,
    saved: SavedCorrection,
    output: Path,
    prediction: str | None = None,
    threads: int | None = None,
    memory: str = "600MB",
) -> str:
    """Write the rows of files with corrected predictions; gives a sentence about what was done.

    All columns stay as they are, in their order, but those of the predictions, and ``seen``: it is
    true for domains that the correction was fitted on, besides those that it was true for before.
    In a CSV file no cell holds a control character or begins a formula.
    Labels and domains are not needed; without domains nothing is said about what was seen.
    """
    check_output(output)
    name = prediction or saved.prediction.partition("=")[2] or saved.prediction
    rows, cells = 0, GuardedCells()
    with opened(data, threads, memory) as table, whole_file(output) as draft:
        table.refuse_later(SEEN)
        columns, (keys, marks) = _columns(table, saved, name), _domain_keys(table, saved)
        casts = [
            f"{as_double(table, each)} AS {table.column(each)}"
            for each in columns
            if not table.types[each].endswith("]")
        ]
        casts += [f"{truth_in_sql(table, SEEN)} AS {SEEN}"] if SEEN in table.types else []
        replaced = f" REPLACE ({', '.join(casts)})" if casts else ""
        further = "".join(f", {key} AS {name}" for name, key in keys.items())
        sql = f"SELECT *{replaced}{further} FROM {table.source}"
        with _writer(draft, output, cells) as write:
            for batch in table.batches(sql, ROWS_AT_A_TIME):
                corrected = _corrected(batch, columns, saved, rows + 1)
                write(_marked(corrected, [*keys], saved.seen))
                rows += batch.num_rows
    if rows == 0:
        raise DataFileError("The files have no rows.")
    done = f"{counted(rows, 'row')} corrected: {listed(columns)} in {output}."
    return f"{done} {marks}{cells.sentence()}"


def _domain_keys(table: TableFiles, saved: SavedCorrection) -> tuple[dict[str, str], str]:
    """What the domain columns hold, in SQL by names of its own, and a sentence about it.

    There is nothing where the files lack one of the columns.
    """
    absent = [
        name
        for name in saved.domain_columns
        if name not in table.types and not table.is_filename(name)
    ]
    if absent:
        return {}, (
            "Which domains the correction was fitted on is not marked: the files have no column "
            f"{listed(absent)}."
        )
    names = enumerate(saved.domain_columns)
    keys = {f"eqrm_domain_{place}": table.domain(name) for place, name in names}
    return keys, f"The column {SEEN!r} marks the domains that it was fitted on."


def _marked(batch: Any, keys: Sequence[str], fitted: SeenDomains) -> Any:
    """The Arrow batch with the column ``seen``, where it is known, and without the keys."""
    import pyarrow

    flags = np.zeros(batch.num_rows, dtype=bool)
    place = batch.schema.get_field_index(SEEN)
    if place >= 0:
        held = batch.column(place)
        if held.null_count:
            refuse_untrue(SEEN)
        flags |= held.to_numpy(zero_copy_only=False)
    if keys and batch.num_rows:
        flags |= fitted.rows(joined_columns([batch.column(key).to_pylist() for key in keys]))
    batch = batch.drop_columns(list(keys))
    if place >= 0:
        return batch.set_column(place, SEEN, pyarrow.array(flags))
    return batch.append_column(SEEN, pyarrow.array(flags)) if keys else batch


def _columns(table: TableFiles, saved: SavedCorrection, name: str) -> list[str]:
    """The columns that hold the predictions, in the order of the classes."""
    if saved.classes is None:
        table.column(name)
        return [name]
    if "{class}" not in name:
        raise SettingError(
            f"The correction is for {len(saved.classes)} classes with a column each, so the "
            f"prediction must be a pattern such as 'p_{{class}}', got {name!r}."
        )
    columns = [name.replace("{class}", each) for each in saved.classes]
    missing = [each for each in columns if each not in table.types]
    if missing:
        raise DataFileError(
            f"{table.files[0].name} has no column {listed(missing)}. The correction is for the "
            f"classes {listed(saved.classes)}; the table has the columns "
            f"{listed(list(table.types), most=20)}."
        )
    return columns


def _corrected(batch: Any, columns: list[str], saved: SavedCorrection, first_row: int) -> Any:
    """The Arrow batch with other predictions."""
    import pyarrow

    places = [batch.schema.get_field_index(name) for name in columns]
    held = [batch.column(place) for place in places]
    given = np.column_stack([column_array(each) for each in held])
    found = saved(given[:, 0] if given.shape[1] == 1 else given, first_row)
    if pyarrow.types.is_list(held[0].type):
        arrays = [pyarrow.array(list(found), held[0].type)]
    else:
        arrays = [pyarrow.array(column) for column in np.atleast_2d(found.T)]
    for place, name, values in zip(places, columns, arrays, strict=True):
        batch = batch.set_column(place, name, values)
    return batch


@contextmanager
def _writer(draft: Path, output: Path, cells: GuardedCells) -> Iterator[Callable[[Any], None]]:
    """What writes Arrow batches to a CSV or Parquet file."""
    from pyarrow import OSFile, csv, parquet

    writers: list[Any] = []
    names: list[str] = []
    as_csv = output.suffix.lower() == ".csv"
    # A writer that opens the file itself leaves it open when the disk is full.
    with OSFile(str(draft), "wb") as file:

        def write(batch: Any) -> None:
            if as_csv:
                names.extend([] if writers else cells.values(batch.schema.names))
                batch = cells.batch(batch, names)
            if not writers:
                if as_csv:
                    style = csv.WriteOptions(quoting_style="needed")
                    writers.append(csv.CSVWriter(file, batch.schema, write_options=style))
                else:
                    writers.append(parquet.ParquetWriter(file, batch.schema))
            writers[0].write_batch(batch)

        try:
            yield write
        finally:
            for each in writers:
                each.close()
