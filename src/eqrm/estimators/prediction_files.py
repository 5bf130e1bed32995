"""Predictions of a saved model for the rows of a file, as another file."""

from __future__ import annotations

from pathlib import Path

from eqrm.errors import MissingExtraError, SettingError, did_you_mean
from eqrm.estimators.table_model_file import load_table_model
from eqrm.estimators.table_reading import read_columns
from eqrm.evaluation.whole_files import refuse_unwritable, whole_file

ENDINGS = (".csv", ".parquet")


def check_output(path: Path) -> None:
    """Raise if predictions cannot be written there, before anything is read."""
    if path.suffix.lower() not in ENDINGS:
        raise SettingError(
            f"Predictions are written as CSV or Parquet, but the file is called {path.name!r}. "
            f"{did_you_mean(path.suffix, ENDINGS)}"
        )
    refuse_unwritable(path)


def predict_file(model_file: Path, table: str, output: Path, unseen: str = "warn") -> str:
    """Read, predict and write; gives a sentence about what was done.

    The file has the rows of the table in their order: its domain and target where it has them,
    then the predictions. ``eqrm evaluate`` can judge it.
    """
    check_output(output)
    model = load_table_model(model_file)
    also = [model.domain_name, model.target_name]
    columns = read_columns(table, model.encoder.kinds(), also)
    predictions = model.predict(columns, unseen)
    kept = {name: columns[name] for name in also if name in columns}
    clash = [name for name in predictions if name in kept]
    if clash:
        raise SettingError(
            f"The table's column {clash[0]!r} would be mixed up with the predictions. Rename it."
        )
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "tables", "Writing predictions") from error
    frame = pandas.DataFrame({**kept, **predictions})
    with whole_file(output) as draft:
        if output.suffix.lower() == ".csv":
            frame.to_csv(draft, index=False)
        else:
            frame.to_parquet(draft, index=False)
    return f"{len(frame):,} rows predicted: {', '.join(predictions)} in {output}."
