"""``eqrm predict``: what ``eqrm train`` or ``eqrm train-network`` saved, applied to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eqrm.cli.commands import option, say, separated
from eqrm.cli.options import SEVERAL
from eqrm.errors import DataFileError, SettingError


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            help="Model file of 'eqrm train', or its folder for the chosen model; or run folder of "
            "'eqrm train-network'."
        ),
    ],
    table: Annotated[
        str, typer.Argument(help="A CSV or Parquet file with the columns of the training table.")
    ],
    output: Annotated[
        Path, option("File to write the predictions to, ending in .csv or .parquet.")
    ],
    keep: Annotated[
        list[str] | None,
        option(
            "Columns of the table to write before the predictions, such as an identifier. "
            f"{SEVERAL}",
            metavar="COLUMN",
        ),
    ] = None,
    unseen: Annotated[
        str, option("What to do about categories that did not occur in training: warn or error.")
    ] = "warn",
) -> None:
    """Predict for the rows of a table: classes with probabilities, or numbers."""
    from eqrm.tabular.predictions import check_output, predict_file

    if Path(table).exists() and output.exists() and output.samefile(table):
        raise SettingError(f"{table} is the table itself. Choose another file for the predictions.")
    check_output(output)
    if not model.exists():
        raise DataFileError(
            f"The model {str(model)!r} does not exist. 'eqrm train' and 'eqrm train-network' write "
            "models."
        )
    say(predict_file(model, table, output, unseen, separated(keep or [])))
