"""Predictions of a saved model for the rows of a file, as another file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.seen_domains import SEEN, SeenDomains
from eqrm.data.tables.kinds import TRUTH
from eqrm.data.tables.preprocessor import PREDICTION, TablePreprocessor, Task
from eqrm.data.tables.reading import read_as_stored, read_domains, read_texts
from eqrm.domains import DomainKey
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.evaluation.controlling.operating_point import OperatingPoint
from eqrm.files.writing import GuardedCells, refuse_unwritable, whole_file
from eqrm.tabular.model import load_table_model
from eqrm.tabular.output_folder import listed_files, refusing_damaged, saved_models
from eqrm.text import counted, did_you_mean, listed, one_line

ENDINGS = (".csv", ".parquet")


def check_output(path: Path) -> None:
    """Raise if predictions cannot be written there, before anything is read."""
    if path.suffix.lower() not in ENDINGS:
        raise SettingError(
            f"Predictions are written as CSV or Parquet, but the file is called {path.name!r}. "
            f"{did_you_mean(path.suffix, ENDINGS)}"
        )
    refuse_unwritable(path)


def predict_file(
    model_file: Path,
    table: str,
    output: Path,
    unseen: str = "warn",
    keep: Sequence[str] = (),
    control: Path | None = None,
) -> str:
    """Read, predict and write; returns a summary sentence.

    The file has the rows of the table in their order: the columns to ``keep``, its domain and
    target where it has them, then the predictions, and whether the domain was seen in training.
    ``eqrm evaluate`` can read it, and leaves out what was seen. In a Parquet file, domain and
    target have the types that they have in the table, and predicted classes the type of the target.
    In a CSV file no cell holds a control character or begins a formula. ``control`` is a file with
    an operating point, whose decisions are added.
    """
    check_output(output)
    point = None if control is None else OperatingPoint.load(control)
    by, model = _predicted_by(model_file, point), load_table_model(model_file)
    preprocessor = model.preprocessor
    also = [*dict.fromkeys([*keep, *preprocessor.key.columns, preprocessor.target_name])]
    columns = preprocessor.read(table, also, keep)
    # As they are, not as features.
    features = [name for name in also if name in preprocessor.encoder.names]
    texts = {**columns, **read_texts(table, features)}
    seen, about = seen_column(model.seen, table, preprocessor.key)
    predictions = model.predict(columns, unseen)
    decisions = {} if point is None else _decided(point, predictions, preprocessor.task)
    predictions = {**predictions, **decisions, **seen}
    kept = {name: np.asarray(texts[name]) for name in also if name in texts}
    clash = [name for name in predictions if name in kept]
    if clash:
        raise SettingError(
            f"The table's column {clash[0]!r} has the name of a column that is written. Rename it."
        )
    cells = GuardedCells()
    with whole_file(output) as draft:
        if output.suffix.lower() == ".csv":
            if preprocessor.task.numbers and preprocessor.target_name in kept:
                chosen = _spelled(predictions[PREDICTION], kept[preprocessor.target_name])
                predictions = {**predictions, PREDICTION: chosen}
            spelled = {name: _in_text(values) for name, values in {**decisions, **seen}.items()}
            _write_csv(draft, {**kept, **predictions, **spelled}, cells)
        else:
            _write_parquet(draft, preprocessor, table, list(kept), predictions)
    rows = len(predictions[PREDICTION])
    found = (
        f"{rows:,} rows predicted: {', '.join(predictions)} in {output}. {about}{cells.sentence()}"
    )
    if point is not None:
        found += (
            f" Decisions ({', '.join(decisions)}): {point.requirement.in_words(point.setting)}, as "
            f"computed for '{one_line(point.model)}'."
        )
    return f"{by}{found}"


def seen_column(
    seen: SeenDomains | None, table: Any, key: DomainKey
) -> tuple[dict[str, NDArray[Any]], str]:
    """The column that says which rows are of domains seen in training, and a sentence about it.

    Where domains are nested, all members of a group were seen if one was. Rows without a domain
    have None, with a warning.
    """
    columns = key.groups
    unknown = f"Which domains were seen in training is not known (no column {SEEN!r}):"
    if seen is None:
        return {}, f"{unknown} the version that saved the model did not keep their names."
    try:
        read = read_domains(table, columns)
    except DomainDataError as error:
        return {}, f"{unknown} {error}"
    quoted = " and ".join(map(repr, columns))
    if read is None:
        return {}, f"{unknown} the table has no column {quoted}."
    domains, named = read
    if not named.any():
        return {}, f"{unknown} no row has a value of {quoted}."
    known, number = len(seen.among(domains.names)), counted(len(domains.names), key.unit)
    column = {SEEN: _of_all_rows(seen.rows(domains), named, quoted)}
    if not known:
        return column, f"None of {number} was seen in training (column {SEEN!r})."
    were = "was" if known == 1 else "were"
    return column, (
        f"{known:,} of {number} {were} seen in training (column {SEEN!r}); eqrm evaluate leaves "
        "them out."
    )


def _decided(
    point: OperatingPoint, predictions: Mapping[str, NDArray[Any]], task: Task
) -> dict[str, NDArray[Any]]:
    """Columns of decisions about rows that were predicted."""
    if not task.classes:
        return point.apply(predictions[PREDICTION])
    names, values = task.classes, dict(zip(task.classes, task.values.tolist(), strict=True))
    if point.classes != tuple(range(len(names))):  # they have names
        if {*map(str, point.classes)} != {*names}:
            raise DomainDataError(
                f"The operating point is about the classes {listed(point.classes)}, and the model "
                f"predicts {listed(names)}."
            )
        names = tuple(map(str, point.classes))
    columns = np.column_stack([predictions[f"p_{name}"] for name in names])
    return point.apply(columns, classes=[values[name] for name in names])


def _predicted_by(model_file: Path, point: OperatingPoint | None) -> str:
    """Which model of a training this is; raises if the point is that of another one."""
    folder = model_file if model_file.is_dir() else model_file.parent.parent
    content = listed_files(folder)
    if content is None:
        return ""
    with refusing_damaged(folder):
        files, chosen = saved_models(content)
    places = {name: folder / file for name, file in files.items()}
    own = {place: name for name, place in places.items()}.get(model_file, chosen)
    if point is not None and point.model in places and point.model != own:
        raise SettingError(
            f"The operating point is of the model {point.model!r}, and predictions would be of "
            f"{own!r}: use {places[point.model]}."
        )
    return f"Predicted by {one_line(own)} ({places[own]}).\n" if model_file == folder else ""


def _in_text(values: NDArray[Any]) -> NDArray[Any]:
    """A column of decisions or flags for CSV; classes of a set are separated by a line."""
    if values.dtype.kind == "f":
        return values

    def text(each: Any) -> Any:
        if isinstance(each, tuple):
            return "|".join(map(str, each))
        if isinstance(each, bool):
            return "true" if each else "false"
        return "" if each is None else each

    return np.array([text(each) for each in values.tolist()], dtype=object)


def _of_all_rows(flags: NDArray[np.bool_], named: NDArray[np.bool_], column: str) -> NDArray[Any]:
    """Flags of the rows that have a domain; None in the others, which a warning counts."""
    if named.all():
        return flags
    gone = np.flatnonzero(~named)
    warnings.warn(
        f"The domain ({column}) is missing in {len(gone):,} of {len(named):,} rows (first: row "
        f"{gone[0] + 1:,}): whether it was seen in training is not known, and the column {SEEN!r} "
        "is empty there.",
        EqrmWarning,
        stacklevel=4,
    )
    found = np.full(len(named), None, dtype=object)
    found[named] = flags
    return found


def _spelled(predicted: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """Classes that are numbers, written as the target writes them, so that equal ones compare."""
    spelling = {}
    for text in np.unique(target).tolist():
        with suppress(ValueError):
            bare = text.strip().lower()
            spelling[float(TRUTH.get(bare, bare))] = text
    values, place = np.unique(predicted, return_inverse=True)
    found: NDArray[Any] = np.array([spelling.get(each, str(each)) for each in values.tolist()])
    return found[place]


def _write_csv(path: Path, columns: dict[str, NDArray[Any]], cells: GuardedCells) -> None:
    import pandas

    guarded = [
        np.array(cells.values(values.tolist()), object) if values.dtype.kind in "OUT" else values
        for values in columns.values()
    ]
    names = cells.values(list(columns))
    frame = pandas.DataFrame(dict(enumerate(guarded)))
    frame.to_csv(path, index=False, header=names)


def _write_parquet(
    path: Path,
    preprocessor: TablePreprocessor,
    table: str,
    kept: list[str],
    predictions: dict[str, NDArray[Any]],
) -> None:
    import pyarrow
    from pyarrow import parquet

    stored = read_as_stored(table, kept) if kept else pyarrow.table({})
    columns = {name: stored.column(name) for name in kept}
    columns |= {name: pyarrow.array(values) for name, values in predictions.items()}
    task, target = preprocessor.task, columns.get(preprocessor.target_name)
    if target is not None:
        in_numbers = task.numbers or not task.classes
        if in_numbers and pyarrow.types.is_string(target.type):  # as CSV files hold them
            target = _first_that_fits(target, [pyarrow.int64(), pyarrow.float64()])
            columns[preprocessor.target_name] = target
        if task.classes:
            columns[PREDICTION] = _first_that_fits(columns[PREDICTION], [target.type])
    parquet.write_table(pyarrow.table(columns), path)


def _first_that_fits(column: Any, types: list[Any]) -> Any:
    """The column in the first of these types that holds all its values, or as it is."""
    import pyarrow

    for each in types:
        with suppress(pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            return column.cast(each)
    return column
