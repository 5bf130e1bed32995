"""``eqrm train``: a table in; a model and a report out. ``eqrm predict``: a model applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from eqrm.checks import CONFIDENCE, Problems
from eqrm.cli.commands import column, option, say, separated, typed_command
from eqrm.cli.options import SEVERAL, confidence_of, read_settings, with_settings
from eqrm.errors import DataFileError, SettingError
from eqrm.tabular.plan import TrainingPlan

HOW = "Output"


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, pattern or folder; or 'flights' or 'coloured-digits', which "
            "ship with eqrm.",
        ),
    ],
    *,
    verbose: Annotated[
        bool, option("Print all details, which summary.txt holds too.", HOW, "--verbose")
    ] = False,
    output: Annotated[Path, option("Folder to write everything to.", HOW)] = Path("train-output"),
    confidence: Annotated[float, confidence_of("intervals and certificates", HOW)] = 0.95,
    **given: Any,
) -> None:
    """Find the model of a table to use on new domains, and say how well it will do there.

    Linear models and boosted trees, trained plainly, recalibrated and trained for a level, are
    compared on domains that they have not seen; the chosen one is fitted to all domains.

    Put a name that contains a comma in double quotes: --drop '"height, cm",age'.
    """
    from eqrm.tabular.entry import STEPS, run_training
    from eqrm.tabular.output_folder import check_folder

    problems = Problems()
    with problems.noted():
        CONFIDENCE.check(confidence, "--confidence")
    with problems.noted():
        check_folder(output)
    chosen = read_settings(TrainingPlan, given, problems)
    plan = TrainingPlan.of(problems=problems, **chosen)

    with steps_shown(STEPS, partial(_kept, output)) as tell:
        found = run_training(data, plan, confidence, problems, tell, typed_command())
        found.save(output)
    say(found.printed(output))
    if verbose:
        say(f"\n{found.summary}")


def _kept(output: Path, step: str) -> str:
    """What is left of the work when a step is interrupted."""
    from eqrm.tabular.entry import WRITING

    if step == WRITING:
        return f"The files in {output} may be incomplete. Run the command again."
    return f"Nothing was saved to {output}. Run the command again."


@contextmanager
def steps_shown(total: int, kept: Callable[[str], str]) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, on standard error; on Ctrl-C, the step that was stopped.

    ``kept`` says what is left of the work when a step is interrupted, and what to do.
    """
    from eqrm.tabular import steps

    try:
        with steps.steps_shown(total) as tell:
            yield tell
    except steps.StepInterrupted as stopped:
        say(f"eqrm: Interrupted while {stopped.step}. {kept(stopped.step)}", err=True)
        raise typer.Exit(130) from None


# Typer reads the options from here: those above, and one for each setting of the plan.
train.__dict__["__signature__"] = with_settings(train, TrainingPlan)


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
        column(
            "Columns of the table to write before the predictions, such as an identifier. "
            f"{SEVERAL}"
        ),
    ] = None,
    unseen: Annotated[
        str, option("What to do about categories that did not occur in training: warn or error.")
    ] = "warn",
    control: Annotated[
        Path | None,
        option(
            "Operating point of 'eqrm control --save' or 'eqrm train --require': adds its "
            "decisions.",
            metavar="FILE",
        ),
    ] = None,
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
    say(predict_file(model, table, output, unseen, separated(keep or []), control))
